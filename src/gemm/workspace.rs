//! What one product leaves to the next.

use super::driver::Buffers;
use super::kernel::Kernel;
use super::one_tile;
use super::small::Group;
use crate::error::Error;
use crate::simd::{self, Isa};
use crate::unit::Unit;
use core::cell::Cell;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, OnceLock};

/// Buffers that a product leaves to the next one, so that small products need not allocate.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) narrow: Buffers<f32>,
    pub(super) wide: Buffers<f64>,
    pub(super) group: Option<Box<Group>>,
    pub(super) one_tile: one_tile::Buffers,
    /// The kernels used last, one for each class of rows.
    kernels: [Option<Chosen<Arc<dyn Kernel>>>; simd::ROW_CLASSES],
    /// The kernel that computes small tiles, if there is one.
    small: Option<Chosen<Option<Arc<dyn Kernel>>>>,
    pool: Option<(usize, Arc<ThreadPool>)>,
}

/// A kernel, and what it was chosen for.
#[derive(Debug)]
struct Chosen<K> {
    unit: Unit,
    isa: Option<Isa>,
    kernel: K,
}

impl<K: Clone> Chosen<K> {
    /// What was chosen before for the same, or what is chosen now.
    fn get(slot: &mut Option<Self>, unit: &Unit, isa: Option<Isa>, choose: impl FnOnce() -> K) -> K {
        match slot {
            Some(known) if known.unit == *unit && known.isa == isa => known.kernel.clone(),
            _ => {
                let kernel = choose();
                *slot = Some(Self { unit: unit.clone(), isa, kernel: kernel.clone() });
                kernel
            }
        }
    }
}

thread_local! {
    /// What small products of this thread leave to the next.
    static SMALL: Cell<Option<Box<Workspace>>> = const { Cell::new(None) };
}

/// Elements of A, B and D together up to which a thread keeps its buffers.
const SMALL_ELEMENTS: usize = 1 << 16;

/// Threads of one product, at most.
const MAX_THREADS: usize = 1024;

impl Workspace {
    /// Lends a workspace to one product: for small ones this thread's own, so that a loop of them
    /// allocates nothing but results.
    pub(crate) fn lend<R>([m, n, k]: [usize; 3], f: impl FnOnce(&mut Self) -> R) -> R {
        let elements = (m.saturating_add(n)).saturating_mul(k).saturating_add(m.saturating_mul(n));
        if elements > SMALL_ELEMENTS {
            return f(&mut Self::new());
        }
        // Taken, not borrowed: a product within a product finds none and makes its own.
        let mut workspace = SMALL.take().unwrap_or_default();
        let result = f(&mut workspace);
        workspace.pool = None;
        SMALL.set(Some(workspace));
        result
    }

    /// An empty workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kernel for products of so many rows.
    pub(super) fn kernel(&mut self, unit: &Unit, isa: Option<Isa>, rows: usize) -> Arc<dyn Kernel> {
        let slot = &mut self.kernels[simd::row_class(rows)];
        Chosen::get(slot, unit, isa, || simd::select(unit, isa, rows).0)
    }

    /// The kernel for small tiles.
    pub(super) fn small_kernel(&mut self, unit: &Unit, isa: Option<Isa>) -> Option<Arc<dyn Kernel>> {
        Chosen::get(&mut self.small, unit, isa, || Some(simd::select_small(unit, isa)?.0))
    }

    /// A pool of its own for so many threads.
    pub(super) fn pool(&mut self, threads: usize) -> Result<Arc<ThreadPool>, Error> {
        // More find no work, but cost the system dearly.
        let threads = threads.min(MAX_THREADS);
        if let Some((_, pool)) = self.pool.as_ref().filter(|(n, _)| *n == threads) {
            return Ok(pool.clone());
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = Arc::new(pool.map_err(|e| Error::Product(format!("{threads} threads cannot be had: {e}")))?);
        self.pool = Some((threads, pool.clone()));
        Ok(pool)
    }
}

/// Does work in a pool, on threads of that pool alone, and waits for it.
///
/// # Errors
/// When the caller works in another pool and the system gives no thread to wait on.
pub(super) fn within<R: Send>(pool: &ThreadPool, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
    // A thread of a pool does not wait for another pool: it takes up other jobs of its own, which may want what the
    // caller holds, or products of their own, one within the other. So a thread of no pool waits in its place.
    if rayon::current_thread_index().is_none() || pool.current_thread_index().is_some() {
        return Ok(pool.install(work));
    }
    std::thread::scope(|scope| {
        let waiting = std::thread::Builder::new().spawn_scoped(scope, || pool.install(work));
        let waiting = waiting.map_err(|e| Error::Product(format!("a thread cannot be had: {e}")))?;
        waiting.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether there are threads that need not be asked for: those of the pool that the caller works in, or the global
/// one's. Where the system gives no thread to start that with, rayon would panic at the first use.
pub(super) fn has_current_pool() -> bool {
    static GLOBAL: OnceLock<bool> = OnceLock::new();
    // Who has started it before is answered without a source: only a system that gives no threads has one.
    let start =
        || ThreadPoolBuilder::new().build_global().err().is_none_or(|e| std::error::Error::source(&e).is_none());
    rayon::current_thread_index().is_some() || *GLOBAL.get_or_init(start)
}
