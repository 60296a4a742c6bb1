//! Events with hits in several segments.

use std::collections::BTreeMap;

use super::engine::Map;
use super::{Events, Flags, Found, Hit, Plan, Prepared};
use crate::Error;
use crate::basis::Basis;
use crate::channels::{CHANNELS, Channel, ChannelSet, SEGMENTS, Segment};

/// Hits below this energy (keV) are dropped.
const THRESHOLD: f64 = 10.0;
/// Events with more hit segments than this are not taken apart.
const MOST_SEGMENTS: usize = 12;
/// How often all hits of an event are searched for.
const SWEEPS: usize = 4;
/// How many of the last samples say what a segment has collected.
const SETTLED: usize = 4;

/// A crystal whose events may have hits in several segments.
#[derive(Clone, Debug)]
pub struct Crystal {
    basis: Basis,
    window: usize,
    segments: BTreeMap<Segment, Part>,
}

/// A segment of it.
#[derive(Clone, Debug)]
struct Part {
    prepared: Prepared,
    channels: Vec<Channel>,
    /// Its points among all of the crystal.
    points: Vec<usize>,
    /// Where a hit is taken to be before it has been searched for.
    begin: usize,
}

/// One hit of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The segment.
    pub segment: Segment,
    /// What it has collected (keV).
    pub energy: f64,
    /// The answer; points are numbered within the segment.
    pub found: Found,
    /// The same point among all of the crystal.
    pub point: usize,
}

impl Crystal {
    /// From the basis of all points, of which the first `window` samples are compared in the channels of `channels`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a plan without meaning, or signals shorter than the window.
    pub fn new(basis: Basis, plan: &Plan, channels: ChannelSet, window: usize) -> Result<Crystal, Error> {
        let mut segments = BTreeMap::new();
        for segment in Segment::all() {
            let of_segment = basis.of_segment(segment, channels, window)?;
            if of_segment.positions().is_empty() {
                continue;
            }
            let points = (0..basis.segments().len()).filter(|&i| basis.segments()[i] == segment).collect();
            let begin = Map::new(of_segment.positions()).lattice.coarse[0];
            let prepared = Prepared::new(plan, &of_segment)?;
            segments.insert(segment, Part { prepared, channels: channels.of(segment), points, begin });
        }
        Ok(Crystal { basis, window, segments })
    }

    /// Where the hits of an event are; `signals` (keV) has the 37 channels one after the other, each as long as the window, positive where charge is collected.
    ///
    /// A segment that has collected 10 keV or more, by the mean of the last samples, has a hit. Hits are sorted by energy; each is taken to be at the first coarse
    /// point of its segment. Then each in turn, four times, is searched for in what is left of the event when the signals of the others have been
    /// subtracted. Of the third hit and those after it only coarse points are compared where they have less than 50 keV, if the method has such.
    /// An event with more than 12 hits is not taken apart: each hit is searched for as if it were alone, and flagged.
    ///
    /// # Errors
    /// [`Error::Shape`] for signals of another size; [`Error::Parameter`] for hits in a segment without points, or samples that are not finite.
    pub fn search(&self, signals: &[f32]) -> Result<Vec<Place>, Error> {
        if signals.len() != CHANNELS * self.window {
            let problem =
                format!("{} samples, {CHANNELS} signals of {} are needed", signals.len(), self.window);
            return Err(Error::shape("signals of an event", problem));
        }
        let hits = self.hits(signals)?;
        let alone = hits.len() > MOST_SEGMENTS;
        let mut at: Vec<usize> = hits.iter().map(|hit| self.segments[&hit.segment].begin).collect();
        let mut answers = vec![None; hits.len()];
        for _ in 0..if alone || hits.len() == 1 { 1 } else { SWEEPS } {
            for (i, hit) in hits.iter().enumerate() {
                let mut rest = signals.to_vec();
                for (j, other) in hits.iter().enumerate().filter(|&(j, _)| j != i && !alone) {
                    self.subtract(&mut rest, other, at[j]);
                }
                let found = self.search_one(&rest, hit)?;
                at[i] = found.index;
                answers[i] = Some(found);
            }
        }
        let place = |(hit, found): (&Hit, Option<Found>)| {
            let mut found = found?;
            found.flags = found.flags.with_if(alone, Flags::TOO_MANY_SEGMENTS);
            let point = self.segments[&hit.segment].points[found.index];
            Some(Place { segment: hit.segment, energy: hit.energy, found, point })
        };
        Ok(hits.iter().zip(answers).filter_map(place).collect())
    }

    /// The hits, the largest energy first.
    fn hits(&self, signals: &[f32]) -> Result<Vec<Hit>, Error> {
        let settled = SETTLED.min(self.window);
        let energy = |segment: Segment| {
            let signal = &signals[segment.index() * self.window..][self.window - settled..self.window];
            signal.iter().map(|&x| f64::from(x)).sum::<f64>() / settled as f64
        };
        let energies = Segment::all().map(|segment| (segment, energy(segment)));
        let mut hits: Vec<(Segment, f64)> = energies.filter(|&(_, energy)| energy >= THRESHOLD).collect();
        if let Some((segment, _)) = hits.iter().find(|(segment, _)| !self.segments.contains_key(segment)) {
            let problem = format!("a hit in segment {}, of which the basis has no point", segment.index());
            return Err(Error::Parameter { name: "event", problem });
        }
        hits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let hit = |(rank, (segment, energy))| Hit { number: rank, segment, energy, rank };
        Ok(hits.into_iter().enumerate().map(hit).collect())
    }

    /// Takes a hit's signals at a point of its segment out of those of an event.
    fn subtract(&self, signals: &mut [f32], hit: &Hit, point: usize) {
        let point = self.segments[&hit.segment].points[point];
        for channel in (0..=SEGMENTS).filter_map(Channel::from_index) {
            let to = &mut signals[channel.index() * self.window..][..self.window];
            let of_hit = self.basis.signal(point, channel);
            to.iter_mut().zip(of_hit).for_each(|(to, b)| *to -= (hit.energy * f64::from(*b)) as f32);
        }
    }

    fn search_one(&self, signals: &[f32], hit: &Hit) -> Result<Found, Error> {
        let part = &self.segments[&hit.segment];
        let compared = part.channels.iter().flat_map(|c| &signals[c.index() * self.window..][..self.window]);
        let compared: Vec<f32> = compared.copied().collect();
        let event = Events::new(part.channels.len(), self.window, &[hit.energy], &compared)?;
        Ok(part.prepared.search(&event, &[hit.is_coarse_only()])?[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Sampling;
    use crate::search::Method;

    const SAMPLES: usize = 24;

    /// 27 points in each of two segments that touch, and one point in each of the others. A point's place says when its own segment's signal and the core's
    /// rise, and how large the transients of the others are.
    fn basis() -> Basis {
        let (mut positions, mut segments, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for segment in Segment::all() {
            let points = if [14, 20].contains(&segment.index()) { 27 } else { 1 };
            for i in 0..points {
                let place = [i % 3, i / 3 % 3, i / 9].map(|x| x as f32 * 2.0);
                positions.push([place[0] + 50.0 * segment.index() as f32, place[1], place[2]]);
                segments.push(segment);
                for channel in 0..CHANNELS {
                    values.extend((0..SAMPLES).map(|t| {
                        let rise = |late: f32| 1.0 / (1.0 + (4.0 + late - t as f32).exp());
                        match channel {
                            c if c == segment.index() => rise(place[0]),
                            SEGMENTS => rise(place[1] + 0.3 * place[2]),
                            c => {
                                0.02 * (place[2] + 1.0)
                                    * (1.0 + c as f32 % 5.0)
                                    * (rise(place[0]) - rise(place[1] + 1.0))
                            }
                        }
                    }));
                }
            }
        }
        let sampling = Sampling { samples: SAMPLES, step: 10.0, before: 2 };
        Basis::new(sampling, positions, segments, values).expect("sizes that fit")
    }

    fn event(basis: &Basis, hits: &[(usize, f32)]) -> Vec<f32> {
        let all = (0..CHANNELS).filter_map(Channel::from_index);
        let sample =
            |channel: Channel, t: usize| hits.iter().map(|&(i, e)| e * basis.signal(i, channel)[t]).sum();
        all.flat_map(|channel| (0..SAMPLES).map(move |t| sample(channel, t))).collect()
    }

    #[test]
    fn two_hits_are_taken_apart() {
        let basis = basis();
        let plan = Plan { method: Method::Full, ..Plan::default() };
        let crystal = Crystal::new(basis.clone(), &plan, ChannelSet::Neighbours, SAMPLES).expect("a crystal");
        let of = |segment: usize| -> Vec<usize> {
            (0..basis.segments().len()).filter(|&i| basis.segments()[i].index() == segment).collect()
        };
        let (first, second) = (of(14), of(20));
        for (i, j) in [(0, 26), (13, 5), (22, 17)] {
            let signals = event(&basis, &[(first[i], 300.0), (second[j], 800.0)]);
            let places = crystal.search(&signals).expect("an event");
            let found: Vec<_> = places.iter().map(|place| (place.segment.index(), place.point)).collect();
            assert_eq!(found, [(20, second[j]), (14, first[i])]);
            assert!((places[0].energy - 800.0).abs() < 5.0, "{}", places[0].energy);
        }
    }

    #[test]
    fn what_is_too_small_is_dropped_and_too_many_are_flagged() {
        let basis = basis();
        let plan = Plan { method: Method::CoarseFine { cells: 1 }, ..Plan::default() };
        let crystal = Crystal::new(basis.clone(), &plan, ChannelSet::HitCore, SAMPLES).expect("a crystal");
        let at =
            |segment: usize| basis.segments().iter().position(|s| s.index() == segment).expect("a point");
        let small = [(at(0), 500.0), (at(7), 5.0), (at(9), 200.0), (at(11), 30.0)];
        let places = crystal.search(&event(&basis, &small)).expect("an event");
        assert_eq!(places.iter().map(|place| place.segment.index()).collect::<Vec<_>>(), [0, 9, 11]);
        let coarse: Vec<bool> =
            places.iter().map(|place| place.found.flags.has(Flags::COARSE_ONLY)).collect();
        assert_eq!(coarse, [false, false, true], "the third hit, and below 50 keV");
        let many: Vec<(usize, f32)> = (0..13).map(|segment| (at(segment), 100.0)).collect();
        let places = crystal.search(&event(&basis, &many)).expect("an event");
        assert!(
            places.len() == 13 && places.iter().all(|place| place.found.flags.has(Flags::TOO_MANY_SEGMENTS))
        );
        assert!(crystal.search(&[0.0; 7]).is_err());
        assert!(crystal.search(&[0.0; CHANNELS * SAMPLES]).expect("nothing").is_empty());
    }
}
