//! What the benches that print shares have in common.
#![allow(dead_code, reason = "no bench uses everything")]

use cpu_time::ThreadTime;

/// Seconds of this thread's time.
pub(crate) fn seconds(f: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    f();
    start.elapsed().as_secs_f64()
}

/// The middle one.
pub(crate) fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    x[x.len() / 2]
}
