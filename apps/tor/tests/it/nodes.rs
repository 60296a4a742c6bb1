//! Reconstructors in virtual time on several machines, compared with one machine, with the owners
//! of the tiles, and with real ranks.

use std::ops::Range;

use zellige_dense::{Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator};
use zellige_mpi::{BlockCyclic, Cluster, Distribution, run_local};
use zellige_sim::platform::Platform;
use zellige_sim::{RankSimulation, Simulation};
use zellige_tor::pipeline::simulate::{OWNERS, Report, Request, compare, record, record_ranks, simulate};

const N: usize = 400;
const TILE: usize = 64;

fn request(rule: &str, m: usize, nodes: usize) -> Request<'static> {
    Request {
        n: N,
        m,
        tile: TILE,
        rule: rule.parse().unwrap(),
        norms: None,
        fuse_updates: 1,
        products_only: false,
        cyclic_block: 1,
        policy: "dmdas".into(),
        ahead: 2,
        nodes,
    }
}

fn platform() -> Platform {
    Platform::shipped("v100x4").unwrap()
}

fn simulated(request: &Request<'_>) -> Report {
    simulate(request, &platform()).unwrap().0
}

/// A rank that is alone has the graph of one machine, and takes its time.
#[test]
fn one_rank_is_one_machine() {
    for rule in ["fp32", "hp1:band=2"] {
        let request = request(rule, 150, 1);
        let one = record(&request).unwrap();
        let ranks = record_ranks(&request).unwrap();
        let [(graph, result)] = &ranks[..] else { panic!("one rank") };
        assert_eq!((graph.len(), result), (one.graph.len(), &one.result));
        let platform = platform();
        let wanted = Simulation::new(&one.graph, &platform).collect(one.result.clone()).run().unwrap();
        let graphs = std::slice::from_ref(graph);
        let found = RankSimulation::new(graphs, &platform).collect(0, result.clone()).run().unwrap();
        assert_eq!(found.makespan, wanted.makespan, "{rule}");
        assert_eq!(found.ranks[0].bytes_moved, wanted.bytes_moved);
        assert_eq!(simulated(&request).makespan_seconds, wanted.makespan.as_secs_f64());
    }
}

/// Returns the bytes that each rank sends and receives in a factorisation, from the owners of the
/// tiles alone. Each tile of L goes once to every rank that reads it. It is sent in 16 bits if its
/// only readers are products `band` or more tiles below the diagonal.
fn by_owners(ranks: usize, band: Option<usize>) -> Vec<(u64, u64)> {
    let (owners, nt) = (BlockCyclic::of(ranks), N.div_ceil(TILE));
    let width = |i: usize| if i + 1 < nt { TILE } else { N - i * TILE };
    let mut bytes = vec![(0, 0); ranks];
    for (k, i) in (0..nt).flat_map(|k| (k..nt).map(move |i| (k, i))) {
        let (from, numbers) = (owners.owner(i, k), (width(i) * width(k)) as u64);
        for to in (0..ranks).filter(|&to| to != from) {
            // The readers are TRSM below the diagonal, or else SYRK and products in a row and a
            // column.
            let of_trsm = i == k && (k + 1..nt).any(|below| owners.owner(below, k) == to);
            let of_syrk = i > k && owners.owner(i, i) == to;
            let in_row = (k + 1..i).map(|j| (i, j));
            let in_column = (i + 1..nt).map(|below| (below, i)).filter(|_| i > k);
            let products = in_row.chain(in_column).filter(|&(i, j)| owners.owner(i, j) == to);
            let (narrow, whole): (Vec<_>, Vec<_>) =
                products.partition(|&(i, j)| band.is_some_and(|band| i - j >= band));
            // A rank that has the whole tile converts it itself.
            let bytes_each = match (of_trsm || of_syrk || !whole.is_empty(), narrow.is_empty()) {
                (true, _) => 4,
                (false, false) => 2,
                (false, true) => 0,
            };
            let sent = numbers * bytes_each;
            bytes[from].0 += sent;
            bytes[to].1 += sent;
        }
    }
    bytes
}

fn moved(report: &Report) -> Vec<(u64, u64)> {
    report.ranks.iter().map(|rank| (rank.messages.sent_bytes, rank.messages.received_bytes)).collect()
}

#[test]
fn bytes_follow_from_the_owners() {
    for (rule, band) in [("fp32", None), ("hp1", Some(0)), ("hp1:band=2", Some(2))] {
        for ranks in [2, 3, 4] {
            assert_eq!(
                moved(&simulated(&request(rule, 0, ranks))),
                by_owners(ranks, band),
                "{rule}, {ranks}"
            );
        }
    }
    // With a broadcast tree, other ranks forward the values.
    let of = |pairs: Vec<(u64, u64)>| pairs.into_iter().map(|(_, received)| received).collect::<Vec<_>>();
    assert_eq!(of(moved(&simulated(&request("fp32", 0, 6)))), of(by_owners(6, None)));
}

/// The messages are those of ranks that run as threads, in number and bytes, including trees.
#[test]
fn messages_are_those_of_ranks_that_run() {
    let fill = |rows: Range<usize>, columns: Range<usize>, out: &mut [f32], ld: usize| {
        for (c, column) in columns.enumerate() {
            for (r, row) in rows.clone().enumerate() {
                out[c * ld + r] = if row == column { 2.0 } else { 1e-3 };
            }
        }
    };
    for (rule, ranks) in [("fp32", 4), ("hp1:band=2", 4), ("hp1:band=2", 6)] {
        let policy: SharedPolicy = rule.parse::<Rule>().unwrap().into();
        let program = |cluster: &Cluster| {
            let owners = BlockCyclic::of(cluster.ranks());
            let a = SymmetricTiled::<f32>::new(cluster, TileGrid::uniform(N, TILE).unwrap());
            for j in 0..a.tiles() {
                (j..a.tiles()).for_each(|i| cluster.set_owner(a.tile(i, j), owners.owner(i, j)).unwrap());
            }
            a.fill(cluster, &generator(fill)).unwrap();
            cholesky(cluster, &a, &policy).unwrap();
            cluster.wait_all().unwrap();
            cluster.traffic()
        };
        let report = simulated(&request(rule, 0, ranks));
        for (rank, (ran, planned)) in
            run_local(ranks, 1, program).unwrap().into_iter().zip(&report.ranks).enumerate()
        {
            let planned = planned.messages;
            let counts = (planned.sent, planned.sent_bytes, planned.received, planned.received_bytes);
            let ran = (ran.sent, ran.sent_bytes, ran.received, ran.received_bytes);
            assert_eq!(counts, ran, "{rule}, rank {rank} of {ranks}");
        }
    }
}

/// The time is above the lower bounds, the tasks are those of one machine, and repeats are
/// identical.
#[test]
fn more_nodes_are_less_efficient_and_above_the_bounds() {
    let mut reports: Vec<Report> = [1, 2, 4, 8]
        .map(|nodes| simulated(&Request { n: 2500, tile: 250, ..request("fp32", 500, nodes) }))
        .into();
    compare(&mut reports);
    let one = reports[0].clone();
    for pair in reports.windows(2) {
        assert!(pair[1].efficiency < pair[0].efficiency, "{pair:?}");
    }
    for report in &reports {
        let nodes = report.nodes as f64;
        assert_eq!((report.tasks, report.devices), (one.tasks, one.devices * report.nodes));
        assert!(report.makespan_seconds >= one.bounds.area / nodes);
        assert!(report.makespan_seconds >= one.bounds.critical_path);
        assert!(report.makespan_seconds >= report.bounds.mixed);
        assert!((report.efficiency * nodes - report.speedup).abs() < 1e-12);
        assert!(report.ranks.iter().all(|rank| (0.0..=1.0).contains(&rank.adapter_share)));
    }
    let again = simulated(&Request { n: 2500, tile: 250, ..request("fp32", 500, 4) });
    let text = |report: &Report| {
        serde_json::to_string(&Report { speedup: 1.0, efficiency: 1.0, ..report.clone() }).unwrap()
    };
    assert_eq!(text(&again), text(&reports[2]));
}

#[test]
fn what_is_not_simulated_on_nodes_is_refused() {
    let refused =
        |request: Request<'_>, platform: &Platform| simulate(&request, platform).unwrap_err().to_string();
    let error = refused(request("hp1:operand=1e-2", 0, 2), &platform());
    assert!(error.contains("hp1:operand") && error.contains("norms"), "{error}");
    let error = refused(Request { policy: OWNERS.into(), ..request("fp32", 0, 2) }, &platform());
    assert!(error.contains("one machine"), "{error}");
    let error = refused(request("fp32", 0, 2), &Platform { network: None, ..platform() });
    assert!(error.contains("v100x4") && error.contains("[network]"), "{error}");
}
