//! The engine as the tasks that it runs see it.

use std::any::Any;
use std::sync::Arc;

use zellige_model::KindId;

use super::Engine;
use crate::device::StreamError;
use crate::error::Error;
use crate::task::{DeviceInfo, Env, GiveBack, Runner, Services};
use crate::value::{MemorySource, View, WrongGrant};

impl MemorySource for Arc<Engine> {
    fn find_room(
        &self,
        worker: usize,
        ask: &mut dyn FnMut() -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        Engine::find_room(self, worker, ask)
    }
}

impl Services for Arc<Engine> {
    fn break_down(&self, message: String) {
        self.set_broken(message);
    }

    fn next_number(&self) -> u64 {
        self.counters.next_ids(1)
    }

    fn give_back(&self) -> GiveBack {
        let engine = Arc::downgrade(self);
        Box::new(move |parked| {
            if let Some(engine) = engine.upgrade() {
                parked.into_iter().for_each(|task| engine.push_ready(task, None));
                engine.workers.sleep.rouse_all();
            }
        })
    }

    fn device(&self, worker: usize) -> DeviceInfo<'_> {
        Engine::device(self, worker)
    }

    fn model_kind(&self, worker: usize) -> KindId {
        self.workers[worker].model_kind
    }

    fn has_lost_device(&self, worker: usize) -> bool {
        self.transfers.as_ref().is_some_and(|transfers| transfers.failure_of(worker).is_some())
    }

    fn wait_for_children(&self) -> Result<(), Error> {
        Engine::wait_for_children(self)
    }

    fn is_cancelled(&self, task: u64) -> bool {
        self.counters.is_cancelled(task)
    }

    fn record(&self, env: &Env<'_>, failed: bool) {
        Engine::record(self, env, failed);
    }
}

impl Engine {
    /// Returns the engine behind the services that a body has.
    #[inline]
    pub(crate) fn behind(services: &dyn Services) -> &Arc<Engine> {
        let services: &dyn Any = services;
        services.downcast_ref().expect("the engine serves all tasks")
    }

    /// Returns what bodies need of the engine.
    #[inline]
    pub(super) fn runner(self: &Arc<Self>) -> Runner<'_> {
        Runner {
            services: self,
            models: self.models.as_ref(),
            measures: self.recorder.is_some(),
            subnormals: self.settings.subnormals,
        }
    }

    /// Returns the granted view; a wrong grant ends the runtime, and panics here.
    #[inline]
    pub(crate) fn granted(&self, view: Result<View, WrongGrant>) -> View {
        view.unwrap_or_else(|wrong| {
            self.set_broken(wrong.to_string());
            panic!("{wrong}")
        })
    }
}
