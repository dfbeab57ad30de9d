//! Where the elements of `mma.sync` operands lie: of a lane's i-th element, its row and column
//! (9.7.14.5). Every function is one listing of the document.

/// Row and column of an element.
pub(crate) type Place = (usize, usize);

/// groupID and threadID_in_group of the document.
fn quad(lane: usize) -> (usize, usize) {
    (lane >> 2, lane % 4)
}

/// 9.7.14.5.1, `mma.m8n8k4` with f16: which of the four products a lane takes part in.
pub(crate) fn quadrant_product(lane: usize) -> usize {
    lane % 16 / 4
}

/// 9.7.14.5.1, row-major A: `row = %laneid % 4 (+ 4)`, `col = i`.
pub(crate) fn a_m8n8k4_f16(lane: usize, i: usize) -> Place {
    (lane % 4 + if lane < 16 { 0 } else { 4 }, i)
}

/// 9.7.14.5.1, column-major B: `row = i`, `col = %laneid % 4 (+ 4)`.
pub(crate) fn b_m8n8k4_f16(lane: usize, i: usize) -> Place {
    (i, lane % 4 + if lane < 16 { 0 } else { 4 })
}

/// 9.7.14.5.1, C and D of f16.
pub(crate) fn c_m8n8k4_f16(lane: usize, i: usize) -> Place {
    (lane % 4 + if lane < 16 { 0 } else { 4 }, i)
}

/// 9.7.14.5.1, C and D of f32: `X = (%laneid & 0b1) + (i & 0b10)`.
pub(crate) fn c_m8n8k4_f32(lane: usize, i: usize) -> Place {
    let x = (lane & 1) + (i & 2);
    (if lane < 16 { x } else { x + 4 }, (i & 4) + (lane & 2) + (i & 1))
}

/// 9.7.14.5.2, `mma.m8n8k4` with f64.
pub(crate) fn a_m8n8k4_f64(lane: usize, _: usize) -> Place {
    (lane >> 2, lane % 4)
}

/// 9.7.14.5.2
pub(crate) fn b_m8n8k4_f64(lane: usize, _: usize) -> Place {
    (lane % 4, lane >> 2)
}

/// 9.7.14.5.2
pub(crate) fn c_m8n8k4_f64(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (group, thread * 2 + (i & 1))
}

/// 9.7.14.5.6, `mma.m16n8k4` with tf32 and f64: a0 in row groupID, a1 in row groupID + 8.
pub(crate) fn a_m16n8k4(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (if i == 0 { group } else { group + 8 }, thread)
}

/// 9.7.14.5.6
pub(crate) fn b_m16n8k4(lane: usize, _: usize) -> Place {
    let (group, thread) = quad(lane);
    (thread, group)
}

/// 9.7.14.5.7, `mma.m16n8k8` with f16 and bf16.
pub(crate) fn a_m16n8k8_f16(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

/// 9.7.14.5.7
pub(crate) fn b_m16n8k8_f16(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (thread * 2 + i, group)
}

/// 9.7.14.5.7, `mma.m16n8k8` with tf32 and f64: a0, a2 in row groupID; a0, a1 in column threadID_in_group.
pub(crate) fn a_m16n8k8_tf32(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (if i == 0 || i == 2 { group } else { group + 8 }, if i < 2 { thread } else { thread + 4 })
}

/// 9.7.14.5.7
pub(crate) fn b_m16n8k8_tf32(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (if i == 0 { thread } else { thread + 4 }, group)
}

/// 9.7.14.5.8, `mma.m16n8k16` with f16 and bf16.
pub(crate) fn a_m16n8k16_f16(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
    (row, thread * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
}

/// 9.7.14.5.8
pub(crate) fn b_m16n8k16_f16(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, group)
}

/// 9.7.14.5.8, `mma.m16n8k16` with f64: `col = i * 2 + thread` for even i, `i * 2 - 2 + thread` otherwise.
pub(crate) fn a_m16n8k16_f64(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    if i.is_multiple_of(2) { (group, i * 2 + thread) } else { (group + 8, i * 2 - 2 + thread) }
}

/// 9.7.14.5.8
pub(crate) fn b_m16n8k16_f64(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (thread + i * 4, group)
}

/// 9.7.14.5.9, `mma.m16n8k16` with fp8.
pub(crate) fn a_m16n8k16_f8(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (if i < 4 { group } else { group + 8 }, thread * 4 + (i & 3))
}

/// 9.7.14.5.9
pub(crate) fn b_m16n8k16_f8(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (thread * 4 + i, group)
}

/// 9.7.14.5.10, `mma.m16n8k32` with fp8, fp6 and fp4 in bytes.
pub(crate) fn a_m16n8k32(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    let row = if i < 4 || (8..12).contains(&i) { group } else { group + 8 };
    (row, thread * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
}

/// 9.7.14.5.10
pub(crate) fn b_m16n8k32(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (thread * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, group)
}

/// 9.7.14.5.11, `mma.m16n8k64` with fp4, eight in a register.
pub(crate) fn a_m16n8k64(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    let row = if i < 8 || (16..24).contains(&i) { group } else { group + 8 };
    (row, thread * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
}

/// 9.7.14.5.11
pub(crate) fn b_m16n8k64(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (thread * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, group)
}

/// 9.7.14.5.6 to 9.7.14.5.11: C and D of every m16n8 shape.
pub(crate) fn c_m16n8(lane: usize, i: usize) -> Place {
    let (group, thread) = quad(lane);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

/// 9.7.14.3 and Figure 43: the row of scale_A that a lane provides. Only the pair that thread-id-a names
/// provides any, the even lane of it row groupID, the odd one row groupID + 8 (the figure; CuTe's `SFALayout`
/// of SM120 says the same).
pub(crate) fn scale_a_row(lane: usize, thread_id: usize) -> Option<usize> {
    let (group, thread) = quad(lane);
    (thread / 2 == thread_id).then_some(group + 8 * (thread % 2))
}

/// 9.7.14.3 and Figure 44: the column of scale_B that a lane provides.
pub(crate) fn scale_b_column(lane: usize, thread_id: usize) -> Option<usize> {
    let (group, thread) = quad(lane);
    (thread == thread_id).then_some(group)
}

/// 9.7.15.5.1.1, Figures 149, 151 and 153 (CuTe: `CLayout_64xN`, ((4,8,4),(2,2,N/8)):((128,1,16),(64,8,512)),
/// column-major): D of `wgmma.m64nN`, of lane 0..127 of the warpgroup. Warp w holds rows 16w to 16w + 15 as `mma.m16n8`
/// does, eight columns after eight columns.
pub(crate) fn d_wgmma(lane: usize, i: usize) -> Place {
    let (row, column) = c_m16n8(lane % 32, i % 4);
    (lane / 32 * 16 + row, i / 4 * 8 + column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Every element of a rows x columns matrix once.
    fn check(name: &str, place: fn(usize, usize) -> Place, lanes: usize, rows: usize, columns: usize) {
        let count = rows * columns / lanes;
        let all: HashSet<Place> = (0..lanes).flat_map(|lane| (0..count).map(move |i| place(lane, i))).collect();
        assert_eq!(all.len(), rows * columns, "{name}");
        assert!(all.iter().all(|&(row, column)| row < rows && column < columns), "{name}");
    }

    #[test]
    fn layouts_cover_their_matrices() {
        check("a m8n8k4 f64", a_m8n8k4_f64, 32, 8, 4);
        check("b m8n8k4 f64", b_m8n8k4_f64, 32, 4, 8);
        check("c m8n8k4 f64", c_m8n8k4_f64, 32, 8, 8);
        check("a m16n8k4", a_m16n8k4, 32, 16, 4);
        check("b m16n8k4", b_m16n8k4, 32, 4, 8);
        check("a m16n8k8 f16", a_m16n8k8_f16, 32, 16, 8);
        check("b m16n8k8 f16", b_m16n8k8_f16, 32, 8, 8);
        check("a m16n8k8 tf32", a_m16n8k8_tf32, 32, 16, 8);
        check("b m16n8k8 tf32", b_m16n8k8_tf32, 32, 8, 8);
        check("a m16n8k16 f16", a_m16n8k16_f16, 32, 16, 16);
        check("b m16n8k16 f16", b_m16n8k16_f16, 32, 16, 8);
        check("a m16n8k16 f64", a_m16n8k16_f64, 32, 16, 16);
        check("b m16n8k16 f64", b_m16n8k16_f64, 32, 16, 8);
        check("a m16n8k16 f8", a_m16n8k16_f8, 32, 16, 16);
        check("b m16n8k16 f8", b_m16n8k16_f8, 32, 16, 8);
        check("a m16n8k32", a_m16n8k32, 32, 16, 32);
        check("b m16n8k32", b_m16n8k32, 32, 32, 8);
        check("a m16n8k64", a_m16n8k64, 32, 16, 64);
        check("b m16n8k64", b_m16n8k64, 32, 64, 8);
        check("c m16n8", c_m16n8, 32, 16, 8);
        check("d wgmma", d_wgmma, 128, 64, 256);
    }

    /// CuTe's layout of the same fragment, as an offset into a column-major matrix of 64 rows.
    #[test]
    fn wgmma_agrees_with_cute() {
        for lane in 0..128 {
            for i in 0..128 {
                let thread = lane % 4 * 128 + lane / 4 % 8 + lane / 32 * 16;
                let offset = thread + i % 2 * 64 + i / 2 % 2 * 8 + i / 4 * 512;
                assert_eq!(d_wgmma(lane, i), (offset % 64, offset / 64));
            }
        }
    }

    #[test]
    fn the_four_products_of_m8n8k4_are_complete() {
        for product in 0..4 {
            let lanes: Vec<usize> = (0..32).filter(|&lane| quadrant_product(lane) == product).collect();
            assert_eq!(lanes, [0, 1, 2, 3, 16, 17, 18, 19].map(|lane| lane + 4 * product));
            for (place, count) in [(c_m8n8k4_f32 as fn(usize, usize) -> Place, 8), (c_m8n8k4_f16, 8), (a_m8n8k4_f16, 4)]
            {
                let all: HashSet<Place> =
                    lanes.iter().flat_map(|&lane| (0..count).map(move |i| place(lane, i))).collect();
                assert_eq!(all.len(), 8 * count);
            }
        }
    }

    #[test]
    fn every_row_has_one_scale() {
        for thread_id in 0..2 {
            let rows: HashSet<usize> = (0..32).filter_map(|lane| scale_a_row(lane, thread_id)).collect();
            assert_eq!(rows.len(), 16);
        }
        assert_eq!((0..32).filter_map(|lane| scale_b_column(lane, 3)).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    }
}
