//! What one product leaves to the next.

use super::driver::Buffers;
use super::kernel::Kernel;
use crate::error::Error;
use crate::simd::{self, Isa};
use crate::unit::Unit;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;

/// Buffers that a product leaves to the next one, so that small products need not allocate.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) narrow: Buffers<f32>,
    pub(super) wide: Buffers<f64>,
    kernel: Option<(Unit, Option<Isa>, Arc<dyn Kernel>)>,
    pool: Option<(usize, Arc<ThreadPool>)>,
}

impl Workspace {
    /// An empty workspace.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn kernel(&mut self, unit: &Unit, isa: Option<Isa>) -> Arc<dyn Kernel> {
        match &self.kernel {
            Some((known, set, kernel)) if known == unit && *set == isa => kernel.clone(),
            _ => {
                let kernel = simd::select(unit, isa).0;
                self.kernel = Some((unit.clone(), isa, kernel.clone()));
                kernel
            }
        }
    }

    pub(super) fn pool(&mut self, threads: usize) -> Result<Arc<ThreadPool>, Error> {
        if let Some((_, pool)) = self.pool.as_ref().filter(|(n, _)| *n == threads) {
            return Ok(pool.clone());
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = Arc::new(pool.map_err(|e| Error::Plan(format!("{threads} threads cannot be had: {e}")))?);
        self.pool = Some((threads, pool.clone()));
        Ok(pool)
    }
}
