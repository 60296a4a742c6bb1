//! Ranks that are threads of one process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use zellige_runtime::{Error, Runtime};

use crate::cluster::Cluster;
use crate::transport::{Sender, Transport, TransportError, Waker};

/// A rank among threads of one process, whose messages are passed without a copy: for tests, and
/// for trying out programs that are to run on several machines.
#[derive(Debug)]
pub struct Local {
    rank: usize,
    mailboxes: Arc<[Mailbox]>,
}

#[derive(Debug, Default)]
struct Mailbox {
    content: Mutex<Content>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Content {
    messages: VecDeque<(usize, Vec<u8>)>,
    woken: bool,
}

impl Mailbox {
    fn put(&self, from: usize, message: Vec<u8>) {
        self.content.lock().messages.push_back((from, message));
        self.filled.notify_one();
    }
}

impl Local {
    /// Creates `count` ranks, in their order.
    pub fn ranks(count: usize) -> Vec<Local> {
        let mailboxes: Arc<[Mailbox]> = (0..count).map(|_| Mailbox::default()).collect();
        (0..count).map(|rank| Local { rank, mailboxes: Arc::clone(&mailboxes) }).collect()
    }
}

impl Transport for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.mailboxes.len()
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError> {
        self.mailboxes[to].put(self.rank, message);
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        Ok(self.mailboxes[self.rank].content.lock().messages.pop_front())
    }

    fn wait(&mut self, at_most: Duration, _is_idle: &dyn Fn() -> bool) {
        let mailbox = &self.mailboxes[self.rank];
        let mut content = mailbox.content.lock();
        if content.messages.is_empty() && !content.woken {
            mailbox.filled.wait_for(&mut content, at_most);
        }
        content.woken = false;
    }

    fn waker(&self) -> Waker {
        let (rank, mailboxes) = (self.rank, Arc::clone(&self.mailboxes));
        Arc::new(move || {
            mailboxes[rank].content.lock().woken = true;
            mailboxes[rank].filled.notify_one();
        })
    }

    fn sender(&self) -> Option<Sender> {
        let (rank, mailboxes) = (self.rank, Arc::clone(&self.mailboxes));
        Some(Arc::new(move |to: usize, message| {
            mailboxes[to].put(rank, message);
            Ok(())
        }))
    }
}

/// Runs `program` on `ranks` threads, each with a runtime of `workers` workers; returns the
/// results. A panic of one thread is propagated.
///
/// # Errors
/// Those of building the runtimes.
pub fn run_local<R: Send>(
    ranks: usize,
    workers: usize,
    program: impl Fn(&Cluster) -> R + Sync,
) -> Result<Vec<R>, Error> {
    let clusters = Local::ranks(ranks).into_iter().map(|local| {
        // Other ranks share the cores.
        let runtime = Runtime::builder().workers(workers).bind(false).build()?;
        Cluster::new(runtime, local)
    });
    let clusters: Vec<Cluster> = clusters.collect::<Result<_, _>>()?;
    let program = &program;
    Ok(std::thread::scope(|scope| {
        let run = |cluster: Cluster| scope.spawn(move || program(&cluster));
        let threads: Vec<_> = clusters.into_iter().map(run).collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ends.into_iter().map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    }))
}
