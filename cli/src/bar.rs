//! Progress bars: on terminals, for work that takes more than a second.

use gemmulate::gemm::OnProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

pub(crate) struct Bar {
    bar: ProgressBar,
    start: Instant,
    terminal: bool,
}

impl Bar {
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::hidden();
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {percent:>3}% {elapsed} (ready in {eta})") {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self { bar, start: Instant::now(), terminal: std::io::stderr().is_terminal() }
    }

    /// Does work that tells how far it has come.
    pub(crate) fn watch<R>(&self, work: impl FnOnce(OnProgress<'_>) -> R) -> R {
        work(&|p| {
            self.tell(p.done, p.total);
            ControlFlow::Continue(())
        })
    }

    /// Shows how far the work has come.
    pub(crate) fn tell(&self, done: u64, total: u64) {
        if self.terminal && self.start.elapsed() > Duration::from_secs(1) {
            if self.bar.is_hidden() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.set_length(total);
            self.bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
