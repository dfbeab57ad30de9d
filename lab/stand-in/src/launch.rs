//! A launch: every block of a grid, one after another.

use crate::Fault;
use crate::block::{Block, Place};
use crate::matrix::{Catalogue, Units};
use crate::memory::Global;
use crate::ptx::{self, Kernel};
use std::collections::HashMap;

/// A module as the program registered it, and what is known of it so far.
pub(crate) struct Module {
    text: String,
    catalogue: Catalogue,
    kernels: HashMap<String, Kernel>,
    /// Digits of `.target`.
    pub sm: u32,
}

impl Module {
    pub(crate) fn new(text: String) -> Result<Self, Fault> {
        let target = text.lines().find_map(|line| line.strip_prefix(".target sm_"));
        let target = target.ok_or_else(|| Fault::new("the module names no .target"))?;
        let digits: String = target.chars().take_while(char::is_ascii_digit).collect();
        let sm = digits.parse().map_err(|_| Fault::new("the module names no .target"))?;
        Ok(Self { text, catalogue: Catalogue::for_target(sm)?, kernels: HashMap::new(), sm })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.text.contains(&format!(".entry {name}("))
    }

    fn prepare(&mut self, name: &str) -> Result<(), Fault> {
        if !self.kernels.contains_key(name) {
            let kernel = ptx::parse(&self.text, name)?;
            self.kernels.insert(name.to_string(), kernel);
        }
        Ok(())
    }

    /// Bytes of every parameter of a kernel and where it lies.
    pub(crate) fn params(&mut self, name: &str) -> Result<Vec<(usize, usize)>, Fault> {
        self.prepare(name)?;
        Ok(self.kernels[name].params.clone())
    }

    /// Runs a kernel on a grid.
    pub(crate) fn run(
        &mut self,
        name: &str,
        grid: [usize; 3],
        block: [usize; 3],
        params: &[u8],
        global: &mut Global,
    ) -> Result<(), Fault> {
        self.prepare(name)?;
        let kernel = &self.kernels[name];
        let threads: usize = block.iter().product();
        if threads == 0 || threads > 1024 || grid.contains(&0) {
            return Err(Fault::new(format!("a grid of {grid:?} blocks of {block:?} threads")));
        }
        for z in 0..grid[2] {
            for y in 0..grid[1] {
                for x in 0..grid[0] {
                    let place = Place { ntid: block, ctaid: [x, y, z], nctaid: grid };
                    let units = Units::new(&mut self.catalogue);
                    let block = || format!("block ({x}, {y}, {z}) of {name}");
                    Block::new(kernel, params, global, place, units).run().map_err(|fault| fault.at(&block()))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(body: &str, threads: usize, out: usize) -> Result<Vec<u8>, Fault> {
        let target = if body.contains("wgmma") { "sm_90a" } else { "sm_80" };
        let head = format!(".version 9.0\n.target {target}\n.address_size 64\n");
        let text = format!("{head}.visible .entry f(\n.param .u64 f_param_0\n)\n{{\n{body}\n}}\n");
        let mut module = Module::new(text)?;
        let mut global = Global::default();
        let base = global.allocate(out);
        module.run("f", [1, 1, 1], [threads, 1, 1], &base.to_le_bytes(), &mut global)?;
        Ok(global.slice(base, out)?.to_vec())
    }

    /// Lanes part, loop a different number of times, meet at a barrier, and read what others wrote.
    #[test]
    fn lanes_part_and_meet() {
        let body = ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>; .shared .align 4 .b8 s[256];\n\
            ld.param.u64 %rd0, [f_param_0]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0; mov.u32 %r2, 0;\n\
            loop: setp.ge.s32 %p0, %r2, %r0; @%p0 bra done; add.s32 %r1, %r1, %r2; add.s32 %r2, %r2, 1; bra.uni loop;\n\
            done: shl.b32 %r3, %r0, 2; mov.u32 %r4, s; add.s32 %r5, %r4, %r3; st.shared.u32 [%r5], %r1;\n\
            bar.sync 0; xor.b32 %r6, %r3, 4; add.s32 %r6, %r4, %r6; ld.shared.u32 %r7, [%r6];\n\
            cvt.u64.u32 %rd1, %r3; add.s64 %rd2, %rd0, %rd1; st.global.u32 [%rd2], %r7; ret;";
        let out = run(body, 64, 256).unwrap();
        for lane in 0..64u32 {
            let other = lane ^ 1;
            let expected = other * other.saturating_sub(1) / 2;
            assert_eq!(out[4 * lane as usize..][..4], expected.to_le_bytes(), "lane {lane}");
        }
    }

    #[test]
    fn what_a_gpu_would_not_allow_faults() {
        for (what, body) in [
            ("no allocation", ".reg .b64 %rd<2>; ld.param.u64 %rd0, [f_param_0]; st.global.u32 [%rd0+8], 1; ret;"),
            ("unaligned", ".reg .b64 %rd<2>; ld.param.u64 %rd0, [f_param_0]; st.global.u32 [%rd0+2], 1; ret;"),
            ("outside shared", ".shared .align 4 .b8 s[4]; st.shared.u32 [s+4], 1; ret;"),
            (
                "only some of 32 lanes",
                ".reg .b32 %r<4>; .reg .pred %p<1>; mov.u32 %r0, %tid.x; \
                setp.lt.s32 %p0, %r0, 4; @%p0 bra x; ret; x: mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 \
                {%r0, %r1}, {%r0, %r1}, {%r2}, {%r0, %r1}; ret;",
            ),
        ] {
            let fault = run(body, 32, 8).unwrap_err().to_string();
            assert!(fault.contains(what), "{what}: {fault}");
        }
    }

    /// All ones: every element of D is 8 products of 1 and a c of 1.
    #[test]
    fn a_warp_multiplies_matrices() {
        let body = ".reg .b32 %r<4>; .reg .b64 %rd<3>; mov.u32 %r0, 0x3c003c00;\n\
            mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r0, %r0}, {%r0}, {%r0, %r0};\n\
            ld.param.u64 %rd0, [f_param_0]; mov.u32 %r3, %tid.x; mul.wide.u32 %rd1, %r3, 8; add.s64 %rd2, %rd0, %rd1;\n\
            st.global.v2.u32 [%rd2], {%r1, %r2}; ret;";
        let out = run(body, 32, 256).unwrap();
        assert!(out.chunks(2).all(|code| code == 0x4880u16.to_le_bytes()));
    }

    /// A and B of ones from shared memory, C of ones: every element of D is 17.
    const WGMMA: &str = ".reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 128 .b8 s[2048];\n\
        mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, s; add.s32 %r1, %r1, %r2; mov.u32 %r3, 0x3c003c00;\n\
        st.shared.v4.u32 [%r1], {%r3, %r3, %r3, %r3}; fence.proxy.async.shared::cta; bar.sync 0;\n\
        shr.u32 %r2, %r2, 4; cvt.u64.u32 %rd0, %r2; or.b64 %rd0, %rd0, 68720001024;\n\
        mov.u32 %r4, 0x3f800000; mov.u32 %r5, %r4; mov.u32 %r6, %r4; mov.u32 %r7, %r4;\n\
        wgmma.fence.sync.aligned;\n\
        { .reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 \
        {%r4, %r5, %r6, %r7}, %rd0, %rd0, p, 1, 1, 0, 0; }\n\
        wgmma.commit_group.sync.aligned;\n\
        wgmma.wait_group.sync.aligned 0;\n\
        ld.param.u64 %rd1, [f_param_0]; mul.wide.u32 %rd2, %r0, 16; add.s64 %rd3, %rd1, %rd2;\n\
        st.global.v4.u32 [%rd3], {%r4, %r5, %r6, %r7}; ret;";

    #[test]
    fn a_warpgroup_multiplies_matrices_in_shared_memory() {
        let out = run(WGMMA, 128, 2048).unwrap();
        assert!(out.chunks(4).all(|code| code == 17f32.to_bits().to_le_bytes()));
    }

    #[test]
    fn a_protocol_with_a_step_left_out_is_noticed() {
        for (step, what) in [
            ("fence.proxy.async.shared::cta;", "without fence.proxy.async"),
            ("wgmma.fence.sync.aligned;", "without wgmma.fence"),
            ("wgmma.commit_group.sync.aligned;", "in flight"),
            ("wgmma.wait_group.sync.aligned 0;", "in flight"),
        ] {
            let fault = run(&WGMMA.replace(step, ""), 128, 2048).unwrap_err().to_string();
            assert!(fault.contains(what), "{step}: {fault}");
        }
    }
}
