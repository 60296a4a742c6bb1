use zellige_psa::{basis::Sampling,crystal::*,detector,fields::*,grid::Grid,observe::Observer,simulate};
use std::{sync::Arc,time::Instant};
struct O(Instant);
impl Observer for O { fn stage(&self,n:&str,t:u64){eprintln!("{n} {t} {:?}",self.0.elapsed())} fn advance(&self,d:u64){if d<4{eprintln!("{d} {:?}",self.0.elapsed())}} }
fn main(){
  let c=Crystal::parse("x".as_ref(),EXAMPLE).unwrap();
  let rt=zellige_runtime::Runtime::builder().workers(2).build().unwrap();
  let step:f64=std::env::args().nth(1).unwrap().parse().unwrap();
  let o=O(Instant::now());
  let f=detector::fields(&rt,&c,step,&o).unwrap();
  println!("sum {} {:?}",f.worst_sum(&c),o.0.elapsed());
  let d=Arc::new(detector::Detector::new(&c,Arc::new(f),Default::default(),1.0).unwrap());
  println!("detector {:?}",o.0.elapsed());
  let pts=simulate::lattice(&c,2.0).unwrap();
  let b=simulate::basis(&rt,&d,&pts,Sampling{samples:64,step:10.0,before:2},&o).unwrap();
  println!("basis {} {:?}",pts.len(),o.0.elapsed());
  println!("unsettled {}",simulate::unsettled(&b,0.01).len());
  let mut n=[0;36]; for s in b.segments(){n[s.index()]+=1} println!("{n:?}");
  let mut g=[0;36]; for p in &pts{g[c.segment(*p).index()]+=1} println!("{g:?}");
}
