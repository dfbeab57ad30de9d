//! Products of arrays: layouts, batches, epilogues, wrong and empty input.

use crate::rng::Rng;
use gemmulate::Error;
use gemmulate::gemm::{Progress, Scaling, Workspace};
use gemmulate::prelude::*;
use gemmulate::view::{View, ViewMut};
use ndarray::{Array1, Array2, Array3, Axis, s};
use std::collections::BTreeSet;
use std::sync::Mutex;

#[test]
fn arrays_of_any_layout_and_type() {
    let h100 = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();
    let mut rng = Rng(3);
    let a = Array2::from_shape_fn((5, 33), |_| f16::from_bits(rng.code(&gemmulate::format::F16) as u16));
    let b = Array2::from_shape_fn((33, 7), |_| f16::from_bits(rng.code(&gemmulate::format::F16) as u16));
    let bits = |d: &Array2<f32>| d.mapv(f32::to_bits);
    let d = a.dot_on(&b, &h100).unwrap();
    // Column-major and reversed operands: the same elements in the same order of K.
    let column_major = b.t().as_standard_layout().into_owned().reversed_axes();
    assert_eq!(bits(&a.dot_on(&column_major, &h100).unwrap()), bits(&d));
    let flipped = a.slice(s![..;-1, ..]);
    assert_eq!(bits(&flipped.dot_on(&b, &h100).unwrap().slice(s![..;-1, ..]).to_owned()), bits(&d));
    // Vectors, and a broadcast row.
    let v: Array1<f32> = a.row(2).dot_on(&b, &h100).unwrap();
    assert_eq!(v.mapv(f32::to_bits), d.row(2).mapv(f32::to_bits));
    let v: Array1<f32> = a.dot_on(&b.column(6), &h100).unwrap();
    assert_eq!(v.mapv(f32::to_bits), d.column(6).mapv(f32::to_bits));
    let rows = a.row(2).insert_axis(Axis(0));
    let wide = rows.broadcast((4, 33)).unwrap();
    assert_eq!(wide.dot_on(&b, &h100).unwrap().row(3).mapv(f32::to_bits), d.row(2).mapv(f32::to_bits));
    // Named, from f32 and f64 that hold the same values; and D in f64.
    let unit = Unit::find("h100 hgmma.64x128x16.f32").unwrap();
    let (a32, b64) = (a.mapv(f32::from), b.mapv(f64::from));
    assert_eq!(bits(&a32.dot_on(&b64, &unit).unwrap()), bits(&d));
    let wide: Array2<f64> = Gemm::on(&unit).run_as::<f64>(&a, &b).unwrap();
    assert!(wide.iter().zip(&d).all(|(x, y)| *x == f64::from(*y) || (x.is_nan() && y.is_nan())));
    // A batch, with one B for all.
    let batch = Array3::from_shape_fn((3, 5, 33), |(_, i, k)| a[[i, k]]);
    let all = Gemm::on(&h100).run_batch(&batch, &b.view().insert_axis(Axis(0))).unwrap();
    assert_eq!(bits(&all.index_axis(Axis(0), 2).to_owned()), bits(&d));
    // A vector by a vector.
    assert_eq!(a.row(2).dot_on(&b.column(6), &h100).unwrap().to_bits(), d[[2, 6]].to_bits());
    // Some elements only, in any order, twice if asked for twice, neighbours or not.
    let at = [[4, 6], [0, 0], [4, 6], [1, 2], [1, 3], [1, 4], [2, 5], [1, 1]];
    let want = at.map(|[i, j]| u64::from(d[[i, j]].to_bits()));
    assert_eq!(Gemm::on(&h100).elements(&a, &b, &at).unwrap(), want);
    assert!(Gemm::on(&h100).elements(&a, &b, &[[5, 0]]).is_err());
}

#[test]
fn batches_read_and_write_their_own_c() {
    let unit = Unit::find("ampere/mma.m16n8k8.f32.f16.f16.f32").unwrap();
    let a = Array3::from_shape_fn((3, 2, 4), |(t, i, k)| (t + i + k) as f32);
    let b = Array3::from_shape_fn((3, 4, 5), |(t, k, j)| (t * k) as f32 - j as f32);
    let c = Array3::from_shape_fn((3, 2, 5), |(t, i, j)| (t + i * j) as f32);
    let (gemm, mut d) = (Gemm::on(&unit).alpha(2.0).beta(-1.0), c.clone());
    gemm.run_batch_into(&a, &b, &mut d, &mut Workspace::new()).unwrap();
    for t in 0..3 {
        let [a, b, c] = [&a, &b, &c].map(|x| x.index_axis(Axis(0), t));
        assert_eq!(d.index_axis(Axis(0), t), a.dot(&b) * 2.0 - c);
    }
    // Refused: C that is not there, batches that do not go together.
    assert!(gemm.run_batch(&a, &b).unwrap_err().to_string().contains("there is none"));
    let two = b.slice(s![..2, .., ..]);
    assert!(Gemm::on(&unit).run_batch(&a, &two).unwrap_err().to_string().contains("a batch of 3 or 1"));
    assert!(Gemm::on(&unit).run_batch(&a, &a).unwrap_err().to_string().contains("B must be 4 x N"));
}

/// What a product is given as C, whatever that is.
#[derive(Debug)]
struct OnlyC;

impl Accumulator for OnlyC {
    fn dot_add(&self, dot: &gemmulate::accumulate::Dot<'_>) -> gemmulate::num::Num {
        dot.c
    }
}

/// A NaN of C becomes the vendor's, though the accumulator keeps it, by every way a product can go.
#[test]
fn nan_in_c_is_the_vendors_by_every_way() {
    let f16 = gemmulate::format::F16;
    let formats = [f16, f16, gemmulate::format::F32, gemmulate::format::F32];
    let unit = Unit::custom(OnlyC, Shape::new(4, 4, 4), formats, None).unwrap();
    let tell = |_: Progress| std::ops::ControlFlow::Continue(());
    for rows in [1, 4, 70] {
        let (a, b) = (Array2::from_elem((rows, 8), f16::ONE), Array2::from_elem((8, 3), f16::ONE));
        let c = Array2::from_elem((rows, 3), f32::from_bits(0x7F80_0001));
        let gemm = Gemm::on(&unit).plan(Plan::in_order().start(Start::C)).c(&c).beta(1.0);
        let want = gemm.clone().isa(gemmulate::simd::Isa::Reference).run(&a, &b).unwrap().mapv(f32::to_bits);
        assert_eq!(gemm.run(&a, &b).unwrap().mapv(f32::to_bits), want, "{rows} rows");
        assert_eq!(gemm.clone().progress(&tell).run(&a, &b).unwrap().mapv(f32::to_bits), want, "{rows} rows");
        assert_eq!(gemm.elements(&a, &b, &[[0, 0]]).unwrap(), [u64::from(want[[0, 0]])]);
    }
}

/// However the rows of a batch with one B are put together: each product is what it is alone.
#[test]
fn batches_with_one_operand_for_all_are_single_products() {
    let mut rng = Rng(9);
    let mut number = || f16::from_f32((rng.next() % 4001) as f32 / 1000.0 - 2.0);
    let (a, b) = (
        Array3::from_shape_simple_fn((5, 20, 192), &mut number),
        Array3::from_shape_simple_fn((1, 192, 9), &mut number),
    );
    let columns_first = a.clone().permuted_axes([0, 2, 1]).as_standard_layout().into_owned();
    let columns_first = columns_first.permuted_axes([0, 2, 1]);
    let every_other = Array3::from_shape_fn((10, 20, 192), |(t, i, k)| a[[t / 2, i, k]]);
    let scales = vec![1.5f32; 20];
    for name in ["hopper/mma.m16n8k16.f32.f16.f16.f32", "cdna2/v_mfma_f32_16x16x16f16", "cdna1/v_mfma_f32_16x16x16f16"]
    {
        let unit = Unit::find(name).unwrap();
        for plan in [
            Plan::in_order(),
            Plan::in_order().split_k(3),
            Plan::in_order().split_k(2).split_mode(SplitMode::Atomic).atomic_seed(4),
            Plan::in_order().block(16, 16, 32).stream_k(5),
            Plan::in_order().promote(32),
        ] {
            let gemm = Gemm::on(&unit).plan(plan.clone());
            for gemm in [gemm.clone(), gemm.clone().alpha(0.5), gemm.scale_a(Scaling::Lines(scales.clone()))] {
                let alone = |t: usize| gemm.run(&a.index_axis(Axis(0), t), &b.index_axis(Axis(0), 0));
                if let Err(error) = alone(0) {
                    // Some plans take no scales.
                    assert_eq!(gemm.run_batch(&a, &b).unwrap_err(), error);
                    continue;
                }
                let want: Vec<Array2<u32>> = (0..5).map(|t| alone(t).unwrap().mapv(f32::to_bits)).collect();
                for a in [a.view(), columns_first.view(), every_other.slice(s![..;2, .., ..])] {
                    let found = gemm.run_batch(&a, &b).unwrap().mapv(f32::to_bits);
                    for (t, want) in want.iter().enumerate() {
                        assert_eq!(found.index_axis(Axis(0), t), want, "{name}, {plan}, product {t}");
                    }
                }
            }
        }
    }
    // What does not fit is said of one product.
    let unit = Unit::find("cdna2/v_mfma_f32_16x16x16f16").unwrap();
    let mut d = Array3::<f32>::zeros((5, 20, 8));
    let error = Gemm::on(&unit).run_batch_into(&a, &b, &mut d, &mut Workspace::new()).unwrap_err().to_string();
    assert!(error.contains("20 x 9"), "{error}");
}

#[test]
fn general_mat_mul_reads_and_writes_c() {
    let unit = Unit::find("ampere/mma.m16n8k8.f32.f16.f16.f32").unwrap();
    let (a, b) = (Array2::from_elem((3, 4), 0.5f32), Array2::from_elem((4, 2), 2.0f32));
    let mut c = Array2::from_shape_fn((3, 2), |(i, j)| (i + j) as f32);
    general_mat_mul_on(2.0, &a, &b, 0.5, &mut c, &unit).unwrap();
    assert_eq!(c, Array2::from_shape_fn((3, 2), |(i, j)| 8.0 + 0.5 * (i + j) as f32));
    c.fill(f32::NAN);
    general_mat_mul_on(1.0f32, &a, &b, 0.0f32, &mut c, &unit).unwrap();
    assert_eq!(c, Array2::from_elem((3, 2), 4.0));
}

#[test]
fn scales_and_bias_of_the_epilogue() {
    let unit = Unit::find("ada/mma.m16n8k32.f32.e4m3.e4m3.f32").unwrap();
    let (a, b) = (Array2::from_elem((2, 32), 1.0f32), Array2::from_elem((32, 3), 1.0f32));
    let bias = [1.0, 2.0, 3.0];
    let d = Gemm::on(&unit)
        .scale_a(Scaling::Lines(vec![0.5, 2.0]))
        .scale_b(Scaling::Tensor(0.25))
        .bias(&bias)
        .run(&a, &b)
        .unwrap();
    assert_eq!(d, ndarray::arr2(&[[5.0, 6.0, 7.0], [17.0, 18.0, 19.0]]));
    let short = Gemm::on(&unit).scale_b(Scaling::Lines(vec![1.0; 2])).run(&a, &b).unwrap_err().to_string();
    assert!(short.contains("scale_b must be 1 x 3"), "{short}");
}

#[test]
fn wrong_input_is_an_error() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let fp4 = Unit::find("rtx-blackwell/mma.m16n8k32.f32.e2m1.e2m1.f32").unwrap();
    let scaled = Unit::find("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3").unwrap();
    let (a, b) = (Array2::<f32>::ones((2, 32)), Array2::<f32>::ones((32, 3)));
    let mut nan = a.clone();
    nan[[1, 7]] = f32::NAN;
    let says = |e: Error, what: &str| assert!(e.to_string().contains(what), "{e}");
    says(Gemm::on(&unit).run(&b, &b).unwrap_err(), "B must be 3 x N");
    says(Gemm::on(&fp4).run(&nan, &b).unwrap_err(), "A[1, 7] = NaN");
    says(Gemm::on(&fp4).run(&(&a * 7.0), &b).unwrap_err(), "saturate");
    assert_eq!(Gemm::on(&fp4).overflow(Overflow::Saturate).run(&(&a * 7.0), &b).unwrap()[[0, 0]], 192.0);
    says(Gemm::on(&scaled).run(&a, &b).unwrap_err(), "needs block scales");
    says(Gemm::on(&unit).block_scales(&a, &b).run(&a, &b).unwrap_err(), "takes no block scales");
    says(Gemm::on(&scaled).block_scales(&a, &b).run(&a, &b).unwrap_err(), "scale_a must be 2 x 2");
    let thirds = [Array2::from_elem((2, 2), 1.0 / 3.0), Array2::from_elem((2, 3), 1.0)];
    says(Gemm::on(&scaled).block_scales(&thirds[0], &thirds[1]).run(&a, &b).unwrap_err(), "scale_a[0, 0]");
    says(Gemm::on(&unit).beta(1.0).run(&a, &b).unwrap_err(), "there is none");
    says(Gemm::on(&unit).beta(1.0).c(&a).run(&a, &b).unwrap_err(), "C must be 2 x 3");
    says(Gemm::on(&unit).alpha(1e300).run(&a, &b).unwrap_err(), "beyond f32");
    says(Gemm::on(&unit).output(gemmulate::format::E4M3).run(&a, &b).unwrap_err(), "not e4m3");
    let plan = Plan::in_order().split_k(2).split_mode(SplitMode::Atomic);
    says(Gemm::on(&unit).plan(plan).run_as::<f16>(&a, &b).unwrap_err(), "no atomic additions in f16");
    says(Gemm::on(&unit).plan(Plan::deepgemm()).run(&a, &b).unwrap_err(), "needs promotion scales");
    let stop = |_: Progress| core::ops::ControlFlow::Break(());
    assert_eq!(Gemm::on(&unit).progress(&stop).run(&a, &b).unwrap_err(), Error::Cancelled);
}

#[test]
fn as_many_threads_work_as_were_asked_for() {
    let (a, b) = (Array2::<f32>::ones((300, 200)), Array2::<f32>::ones((200, 600)));
    let caller = std::thread::current().id();
    // Chains write D at once, the other goes by panels.
    for name in ["cdna3/v_mfma_f32_32x32x2_f32", "hopper/mma.m16n8k8.f32.tf32.tf32.f32"] {
        for threads in [1, 2, 3, 5] {
            let seen = Mutex::new(BTreeSet::new());
            let tell = |_: Progress| {
                let pool = rayon::current_thread_index().map(|_| rayon::current_num_threads());
                seen.lock().unwrap().insert((pool, std::thread::current().id() == caller));
                core::ops::ControlFlow::Continue(())
            };
            let unit = Unit::find(name).unwrap();
            Gemm::on(&unit).threads(threads).progress(&tell).run(&a, &b).unwrap();
            // The calling thread alone, or a pool of so many.
            let wanted = if threads == 1 { (None, true) } else { (Some(threads), false) };
            assert_eq!(seen.into_inner().unwrap(), BTreeSet::from([wanted]), "{name} by {threads}");
        }
    }
}

/// A thread of a pool that waits for a product's own threads takes up nothing else meanwhile: what it took up might
/// want what it holds.
#[test]
fn products_within_a_pool_wait_for_their_own_threads() {
    let (a, b) = (Array2::<f32>::ones((100, 200)), Array2::<f32>::ones((200, 300)));
    let unit = Unit::find("hopper/mma.m16n8k8.f32.tf32.tf32.f32").unwrap();
    let outer = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (workspace, done) = (Mutex::new(Workspace::new()), Mutex::new(0));
    outer.scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|_| {
                let mut d = Array2::<f32>::zeros((100, 300));
                let workspace = &mut workspace.lock().unwrap();
                Gemm::on(&unit).threads(2).run_into(&a, &b, &mut d, workspace).unwrap();
                assert!(d.iter().all(|d| *d == 200.0));
                *done.lock().unwrap() += 1;
            });
        }
    });
    assert_eq!(*done.lock().unwrap(), 40);
    // Products that a product's own threads ask for.
    let within = |_: Progress| {
        let small = (Array2::<f32>::ones((2, 8)), Array2::<f32>::ones((8, 2)));
        assert_eq!(Gemm::on(&unit).threads(2).run(&small.0, &small.1).unwrap()[[1, 1]], 8.0);
        core::ops::ControlFlow::Continue(())
    };
    assert_eq!(Gemm::on(&unit).threads(3).progress(&within).run(&a, &b).unwrap()[[99, 299]], 200.0);
    // Panics come out, and the next product works.
    let panics = |_: Progress| -> core::ops::ControlFlow<()> { panic!("asked for") };
    let product = || outer.install(|| Gemm::on(&unit).threads(2).progress(&panics).run(&a, &b));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(product)).is_err());
    assert_eq!(outer.install(|| Gemm::on(&unit).threads(2).run(&a, &b)).unwrap()[[0, 0]], 200.0);
}

#[test]
fn empty_products() {
    let unit = Unit::find("cdna1/v_mfma_f32_32x32x4f16").unwrap();
    let (a, b) = (Array2::<f32>::zeros((3, 0)), Array2::<f32>::zeros((0, 2)));
    assert_eq!(Gemm::on(&unit).run(&a, &b).unwrap(), Array2::<f32>::zeros((3, 2)));
    let c = Array2::from_elem((3, 2), 5.0f32);
    assert_eq!(Gemm::on(&unit).beta(2.0).c(&c).run(&a, &b).unwrap(), Array2::from_elem((3, 2), 10.0));
    let view = View::from(&c);
    assert_eq!(Gemm::on(&unit).beta(2.0).c(&view).run(&a, &b).unwrap(), Array2::from_elem((3, 2), 10.0));
    assert_eq!(
        Gemm::on(&unit).run(&Array2::<f32>::zeros((0, 4)), &Array2::<f32>::zeros((4, 2))).unwrap().dim(),
        (0, 2)
    );
    // What stood in D does not stay there, whichever way a product takes.
    for name in
        ["cdna3/v_mfma_f32_32x32x2_f32", "hopper/mma.m16n8k16.f32.f16.f16.f32", "ampere/mma.m8n8k4.f64.f64.f64.f64"]
    {
        let unit = Unit::find(name).unwrap();
        for k in [0, 1, unit.shape.k] {
            let (a, b) = (Array2::<f64>::ones((16, k)), Array2::<f64>::ones((k, 8)));
            let mut d = Array2::<f64>::from_elem((16, 8), 7.0);
            let mut narrow = d.mapv(|x| x as f32);
            if unit.d.storage_bits == 64 {
                Gemm::on(&unit).run_into(&a, &b, &mut d, &mut Workspace::new()).unwrap();
            } else {
                let [a, b] = [&a, &b].map(|x| x.mapv(|x| x as f32));
                Gemm::on(&unit).run_into(&a, &b, &mut narrow, &mut Workspace::new()).unwrap();
                d = narrow.mapv(f64::from);
            }
            assert_eq!(d, Array2::from_elem((16, 8), k as f64), "{name} {k}");
        }
        let mut none = Array2::<f64>::zeros((0, 8));
        Gemm::on(&unit)
            .run_into(&Array2::<f64>::ones((0, 4)), &Array2::<f64>::ones((4, 8)), &mut none, &mut Workspace::new())
            .unwrap();
    }
}

#[test]
fn codes_narrower_than_their_format_are_errors() {
    use gemmulate::gemm::{Codes, CodesMut};
    let unit = Unit::find("cdna1/v_mfma_f32_32x32x4f16").unwrap();
    let (bytes, words, mut d) = ([0x3Cu8; 16], [0x3C00u16; 16], [0u32; 16]);
    let narrow = Codes::U8(View::from_slice(&bytes, [4, 4], [4, 1], 0).unwrap());
    let wide = Codes::U16(View::from_slice(&words, [4, 4], [4, 1], 0).unwrap());
    for (a, b, fits) in [(narrow, wide, false), (wide, narrow, false), (wide, wide, true)] {
        let to = CodesMut::U32(ViewMut::from_slice(&mut d, [4, 4], [4, 1], 0).unwrap());
        let result = Gemm::on(&unit).run_codes(&a, &b, to, &mut Workspace::new());
        assert_eq!(result.is_ok(), fits);
        assert!(result.err().is_none_or(|e| e.to_string().contains("at least 16 bits")));
    }
    assert_eq!(d, [4f32.to_bits(); 16]);
}

#[test]
fn products_too_large_for_any_memory_are_errors() {
    let unit = Unit::find("cdna1/v_mfma_f32_32x32x4f16").unwrap();
    for size in [1usize << 40, 1 << 62] {
        let (a, b) = (Array2::<f32>::zeros((size, 0)), Array2::<f32>::zeros((0, size)));
        let error = Gemm::on(&unit).run(&a, &b).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let error = gemmulate::gemm::metrics::reference(&a.mapv(f64::from), &b.mapv(f64::from)).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }
}

/// Of all codes the one whose number is nearest to x, of two the even one.
fn nearest(format: &FormatSpec, x: f64) -> u8 {
    let apart = |code: &u64| (format.to_f64(*code) - x).abs();
    let signed = |code: &u64| format.to_f64(*code).is_sign_negative() == x.is_sign_negative();
    let codes = (0..1u64 << format.storage_bits).filter(|code| format.to_f64(*code).is_finite()).filter(signed);
    codes.min_by(|x, y| apart(x).total_cmp(&apart(y)).then((x & 1).cmp(&(y & 1)))).expect("a code") as u8
}

#[test]
fn quantised_products_and_checkpoint_layouts() {
    use gemmulate::format::{E2M1, E4M3};
    use gemmulate::gemm::quantise;
    let mut rng = Rng(8);
    let a = Array2::from_shape_fn((3, 70), |_| rng.value(3) as f32);
    let b = Array2::from_shape_fn((70, 2), |_| rng.value(3) as f32);
    for (name, format) in [
        ("rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0", Some(E4M3)),
        ("rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0", Some(E2M1)),
        ("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", None),
    ] {
        let unit = Unit::find(name).unwrap();
        let quantise = |x: &Array2<f32>, axis| match &format {
            Some(f) => quantise::mx(x, f, 32, axis, Rounding::NearestEven).unwrap(),
            None => quantise::nvfp4(x, axis, Default::default()).unwrap(),
        };
        let (qa, qb) = (quantise(&a, Axis(1)), quantise(&b, Axis(0)));
        let d = Gemm::on(&unit).run_quantised(&qa, &qb).unwrap();
        let want = qa.values().unwrap().dot(&qb.values().unwrap());
        for (d, want) in d.iter().zip(&want) {
            assert!((f64::from(*d) - want).abs() <= want.abs() * 1e-4 + 1e-5, "{name}: {d} {want}");
        }
        // By the standards' words: the block's scale, and of all codes the nearest, the even one of two.
        for (i, row) in a.outer_iter().enumerate() {
            for (block, xs) in row.axis_chunks_iter(Axis(0), qa.block).enumerate() {
                let largest = xs.fold(0.0f32, |most, x| most.max(x.abs()));
                let scale = qa.scale_format.to_f64(qa.scales[[i, block]].into());
                if let Some(f) = format {
                    let emax = f.to_f64(f.max_code(false)).log2().floor();
                    assert_eq!(scale.log2(), f64::from(largest).log2().floor() - emax, "{name} {i} {block}");
                } else {
                    let all = a.fold(0.0f32, |most, x| most.max(x.abs()));
                    assert_eq!(qa.tensor_scale, (f64::from(all) / (448.0 * 6.0)) as f32);
                    let want = f64::from(largest) / 6.0 / f64::from(qa.tensor_scale);
                    assert_eq!(qa.scales[[i, block]], nearest(&qa.scale_format, want), "{name} {i} {block}");
                }
                for (j, x) in xs.iter().enumerate() {
                    let code = qa.codes[[i, block * qa.block + j]];
                    let want = nearest(&qa.format, f64::from(*x) / (scale * f64::from(qa.tensor_scale)));
                    assert_eq!(code, want, "{name} {i} {block} {j}: {x}");
                }
            }
        }
    }
    refuses_other_blocks(&a, &b);
    let mx = Unit::find("rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e2m1.f32.ue8m0").unwrap();
    let rounding = Rounding::NearestEven;
    assert_eq!(
        quantise::for_unit(&b, &mx, Axis(0), rounding).unwrap(),
        quantise::mx(&b, &E2M1, 32, Axis(0), rounding).unwrap()
    );
    let plain = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    assert!(quantise::for_unit(&b, &plain, Axis(0), rounding).is_err());
    // Quantising columns is quantising the transposed rows, whatever the layout.
    let (rows, columns) =
        (quantise::mx(&b.t(), &E4M3, 32, Axis(1), rounding), quantise::mx(&b, &E4M3, 32, Axis(0), rounding));
    let (rows, columns) = (rows.unwrap(), columns.unwrap());
    assert_eq!((rows.codes.t(), rows.scales.t()), (columns.codes.view(), columns.scales.view()));
    let scales = Array2::from_shape_fn((200, 7), |(i, j)| (i * 7 + j) as u8);
    let bytes = quantise::swizzle(&scales);
    assert_eq!(bytes.len(), 2 * 2 * 512);
    assert_eq!(bytes[16 + 4 + 1], scales[[33, 1]]);
    assert_eq!(quantise::unswizzle(&bytes, 200, 7).unwrap(), scales);
    assert!(quantise::unswizzle(&bytes[1..], 200, 7).is_err());
    assert!(quantise::unswizzle(&[], usize::MAX, usize::MAX).is_err());
    assert!(quantise::unswizzle(&[], usize::MAX, 0).is_err());
    // A checkpoint's parts that do not fit.
    let whole = quantise::mx(&b, &E4M3, 32, Axis(0), rounding).unwrap();
    for bad in [
        quantise::Quantised { block: 0, ..whole.clone() },
        quantise::Quantised { block: 16, ..whole.clone() },
        quantise::Quantised { axis: Axis(1), ..whole.clone() },
        quantise::Quantised { axis: Axis(2), ..whole.clone() },
    ] {
        assert!(bad.values().is_err(), "{} {:?}", bad.block, bad.axis);
    }
    for bits in [4, 6, 8] {
        let codes: Vec<u8> = (0..37).map(|_| rng.next() as u8 & (0xFF >> (8 - bits))).collect();
        assert_eq!(quantise::unpack(&quantise::pack(&codes, bits), bits, 37).unwrap(), codes);
        assert!(quantise::unpack(&[0; 2], bits, 37).is_err());
    }
}

/// Special values, subnormal numbers, formats without NaN, infinities or subnormals, and all roundings: element by
/// element by [`FormatSpec::encode_f64`].
#[test]
fn quantisation_is_the_formats_own_encoding() {
    use gemmulate::format::{
        ALL_FORMATS, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, Overflow, Specials, UE4M3, UE8M0,
    };
    use gemmulate::gemm::{AnyMatrix, Codes, quantise};
    let finite = FormatSpec { name: "finite", specials: Specials::None, ..E4M3 };
    let positive = FormatSpec { name: "positive", signed: false, storage_bits: 7, ..E4M3 };
    let formats = [E2M1, E2M3, E3M2, E4M3, E5M2, finite, positive];
    let roundings = [Rounding::TowardZero, Rounding::Up, Rounding::NearestAway, Rounding::AwayFromZero];
    let mut rng = Rng(31);
    for (round, from) in ALL_FORMATS.iter().copied().filter(|f| [F16, F32, F64].contains(f)).enumerate() {
        let special = [f64::NAN, f64::INFINITY, -f64::INFINITY, 0.0, -0.0, 1e-40, -5e-324, 65504.0, 3e38, -1e300];
        let codes = Array2::from_shape_fn((41, 70), |(i, j)| {
            let x = match rng.next() % 60 {
                // No special value in some bands.
                0 if i % 3 == 0 && j > 33 => special[rng.next() as usize % special.len()],
                1 => 0.0,
                _ => rng.value(12 * (1 + i % 5) as i32),
            };
            from.encode_f64(x, Rounding::NearestEven, Overflow::Ieee).unwrap()
        });
        let x = AnyMatrix::Typed(Codes::U64(View::from(&codes)), from);
        for (format, axis, block) in formats.iter().flat_map(|f| [(*f, 0, 32), (*f, 1, 16), (*f, 1, 9), (*f, 0, 100)]) {
            for rounding in [Rounding::NearestEven, roundings[(round + block) % roundings.len()]] {
                let q = quantise::mx(&x, &format, block, Axis(axis), rounding).unwrap();
                check_blocks(&q, &codes, &from, rounding);
            }
        }
        for tensor in [1.0, 1e-38, 2e30].map(quantise::TensorScale::Given).into_iter().chain([Default::default()]) {
            let q = quantise::nvfp4(&x, Axis(round % 2), tensor);
            if from == F64 && tensor == quantise::TensorScale::Largest {
                // 1e300 over what two scales and an element can make of it is beyond f32.
                assert!(q.is_err());
                continue;
            }
            let q = q.unwrap();
            if tensor == quantise::TensorScale::Largest {
                let numbers = codes.iter().map(|c| from.to_f64(*c).abs()).filter(|x| x.is_finite());
                assert_eq!(q.tensor_scale, (numbers.fold(0.0, f64::max) / (448.0 * 6.0)) as f32);
            }
            check_blocks(&q, &codes, &from, Rounding::NearestEven);
        }
    }
    fn check_blocks(q: &quantise::Quantised, codes: &Array2<u64>, from: &FormatSpec, rounding: Rounding) {
        let block = |[i, j]: [usize; 2]| if q.axis == Axis(1) { [i, j / q.block] } else { [i / q.block, j] };
        let mut largest = Array2::from_elem(q.scales.raw_dim(), 0.0f64);
        for ((i, j), &code) in codes.indexed_iter() {
            let (to, x) = (&mut largest[block([i, j])], from.to_f64(code).abs());
            *to = if to.is_nan() || x.is_nan() { f64::NAN } else { to.max(x) };
        }
        for (&scale, &largest) in q.scales.iter().zip(&largest) {
            let value = q.scale_format.to_f64(scale.into());
            assert_eq!(value.is_nan(), !largest.is_finite(), "{} {largest:e}", q.format);
            if value.is_nan() {
                continue;
            }
            let want = if q.scale_format == UE8M0 {
                // Over the format's largest power of two, the largest power that is no more than the number.
                let top = q.format.max().exponent;
                let power = (-127..=127).rev().find(|e| 2f64.powi(*e) * 2f64.powi(top) <= largest).unwrap_or(-127);
                (power + 127) as u64
            } else {
                let want = largest / 6.0 / f64::from(q.tensor_scale);
                UE4M3.encode_f64(want, Rounding::NearestEven, Overflow::Saturate).unwrap()
            };
            assert_eq!(u64::from(scale), want, "{largest:e} {:e}", q.tensor_scale);
        }
        for ((i, j), &code) in codes.indexed_iter() {
            let factor = q.scale_format.to_f64(q.scales[block([i, j])].into()) * f64::from(q.tensor_scale);
            let x = from.to_f64(code);
            let over = if factor == 0.0 { 0.0 } else { x / factor };
            let want = q.format.encode_f64(over, rounding, Overflow::Saturate).unwrap_or(0);
            assert_eq!(u64::from(q.codes[[i, j]]), want, "{} {rounding} {i} {j}: {x:e} / {factor:e}", q.format);
        }
    }
}

/// Operands quantised for another unit, or another place, are refused; a factor is never dropped.
fn refuses_other_blocks(a: &Array2<f32>, b: &Array2<f32>) {
    use gemmulate::gemm::{Scaling, quantise};
    let nvfp4 = Unit::find("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3").unwrap();
    let mx = Unit::find("rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0").unwrap();
    let f16 = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").unwrap();
    let one = |x: &Array2<f32>, axis| quantise::nvfp4(x, axis, quantise::TensorScale::Given(1.0)).unwrap();
    let (qa, qb) = (one(a, Axis(1)), one(b, Axis(0)));
    for unit in [&mx, &f16] {
        assert!(matches!(Gemm::on(unit).run_quantised(&qa, &qb), Err(Error::Product(_))), "{unit}");
    }
    let square = one(&Array2::ones((64, 64)), Axis(1));
    assert!(matches!(Gemm::on(&nvfp4).run_quantised(&square, &square), Err(Error::Product(_))));
    // A factor given here counts, whichever operand it is for; beside a tensor scale it is refused.
    let plain = Gemm::on(&nvfp4).run_quantised(&qa, &qb).unwrap();
    let doubled = Gemm::on(&nvfp4).scale_a(Scaling::Tensor(2.0)).run_quantised(&qa, &qb).unwrap();
    assert_eq!(doubled, plain.mapv(|x| 2.0 * x));
    let scaled = quantise::nvfp4(b, Axis(0), Default::default()).unwrap();
    assert_ne!(scaled.tensor_scale, 1.0);
    let both = Gemm::on(&nvfp4).scale_b(Scaling::Tensor(2.0)).run_quantised(&qa, &scaled);
    assert!(matches!(both, Err(Error::Product(_))));
    assert!(Gemm::on(&nvfp4).scale_a(Scaling::Tensor(2.0)).run_quantised(&qa, &scaled).is_ok());
}

/// A workspace, or a thread's hidden one, goes from unit to unit: scales of one product must not reach the next.
#[test]
fn nothing_of_a_scaled_product_reaches_the_next() {
    let [plain, scaled] = [
        "custom/m1n1k32.f32.e4m3.e4m3.f32/dot:block=32:F=25:flush-out=yes",
        "custom/m1n1k32.block16.f32.e2m1.e2m1.f32.ue4m3/dot:block=32:F=25:flush-out=yes",
    ]
    .map(|name| Unit::find(name).unwrap());
    let mut workspace = Workspace::new();
    for k in [64, 128, 32] {
        let [a, b] = [(4, k), (k, 4)].map(Array2::<f32>::ones);
        let [sa, sb] = [(4, k / 16), (k / 16, 4)].map(|shape| Array2::<f32>::from_elem(shape, 2.0));
        for hidden in [true, false] {
            let mut run = |gemm: Gemm<'_, f32>| {
                let mut d = Array2::<f32>::zeros((4, 4));
                if hidden {
                    d = gemm.threads(1).run(&a, &b).unwrap();
                } else {
                    gemm.threads(1).run_into(&a, &b, &mut d, &mut workspace).unwrap();
                }
                d
            };
            assert_eq!(run(Gemm::on(&plain)), Array2::from_elem((4, 4), k as f32));
            assert_eq!(run(Gemm::on(&scaled).block_scales(&sa, &sb)), Array2::from_elem((4, 4), 4.0 * k as f32));
            assert_eq!(run(Gemm::on(&plain)), Array2::from_elem((4, 4), k as f32));
        }
    }
}

/// Sizes that no memory holds, and empty matrices with such a side, are refused or empty.
#[test]
fn absurd_sizes_are_refused() {
    use gemmulate::gemm::{Codes, quantise};
    let unit = Unit::find("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3").unwrap();
    let plain = Unit::find("ampere/mma.m16n8k16.f32.f16.f16.f32").unwrap();
    let [wide, tall] = [(0, 1 << 60), (1 << 60, 0)].map(Array2::<f32>::zeros);
    let [none, one] = [Array2::<f32>::zeros((0, 0)), Array2::<f32>::ones((1, 64))];
    let empty = |shape| Array2::<f32>::zeros(shape);
    assert_eq!(Gemm::on(&plain).run(&none, &wide).unwrap(), empty((0, 1 << 60)));
    assert_eq!(Gemm::on(&plain).run(&tall, &none).unwrap(), empty((1 << 60, 0)));
    let number = ndarray::aview0(&1f32);
    let far = number.broadcast(1 << 60).unwrap();
    assert!(Gemm::on(&plain).bias(far).run(&one, &one.t()).is_err());
    assert!(Gemm::on(&plain).scale_a(&far).run(&one, &one.t()).is_err());
    let broad = number.broadcast((1 << 30, 1 << 30)).unwrap();
    assert!(gemmulate::gemm::metrics::reference(&broad, &broad).is_err());
    let huge = Codes::U8(View::from_slice(&[0u8], [1 << 40, 1 << 40], [0, 0], 0).unwrap());
    assert!(Gemm::on(&unit).block_scales(&huge, &huge).run(&one, &one.t()).is_err());
    assert!(Gemm::on(&unit).block_scales(&wide, &tall).run(&one, &one.t()).is_err());
    assert!(quantise::mx(&wide, &gemmulate::format::E4M3, 32, Axis(1), Rounding::NearestEven).is_ok());
    assert!(quantise::nvfp4(&wide, Axis(1), Default::default()).is_ok());
    let row = View::from_slice(&[1f32], [1, 1 << 60], [0, 0], 0).unwrap();
    assert!(quantise::nvfp4(&row, Axis(1), Default::default()).is_err());
    for plan in ["in-order split-k=9223372036854775807 split-mode=atomic", "in-order split-k=1000000000 seed=3"] {
        let plan: Plan = plan.replace("seed=3", "split-mode=atomic seed=3").parse().unwrap();
        assert!(plan.check(&plain, 16, 8, 64).is_err());
    }
}

/// What functions over ndarray's own argument types hand on.
#[test]
fn references_to_arrays_are_operands() {
    use ndarray::{ArrayRef1, ArrayRef2, linalg};
    fn products(a: &ArrayRef2<f16>, b: &ArrayRef2<f16>, x: &ArrayRef1<f16>, unit: &Unit) -> [Array2<f32>; 6] {
        let mut c = Array2::ones((a.nrows(), b.ncols()));
        general_mat_mul_on(1.0, a, b, 2.0, &mut c, unit).unwrap();
        let mut d = Array2::zeros(c.dim());
        Gemm::on(unit).run_into(a, b, &mut d.slice_mut(s![.., ..]), &mut Workspace::new()).unwrap();
        let column: Array1<f32> = a.dot_on(&b.column(0), unit).unwrap();
        let row: Array1<f32> = x.dot_on(b, unit).unwrap();
        assert_eq!(
            a.dot_on(x, unit).unwrap().len() + x.dot_on(&x.to_owned(), unit).map_or(0, |_: f32| 1),
            a.nrows() + 1
        );
        let whole = [a.dot_on(b, unit).unwrap(), b.t().dot_on(&a.t(), unit).unwrap().reversed_axes(), d];
        let [x, y, z] = whole;
        [x, y, z, c, column.insert_axis(Axis(1)), row.insert_axis(Axis(0))]
    }
    let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").unwrap();
    let a = Array2::from_shape_fn((7, 33), |(i, k)| f16::from_f32((i as f32 - k as f32) / 8.0));
    let b = Array2::from_shape_fn((33, 5), |(k, j)| f16::from_f32((k * j) as f32 / 16.0 - 1.0));
    let x = a.row(2).to_owned();
    // Exact in f32.
    let (wide_a, wide_b) = (a.mapv(f32::from), b.mapv(f32::from));
    let exact = wide_a.dot(&wide_b);
    let mut with_c = Array2::ones(exact.dim());
    linalg::general_mat_mul(1.0, &wide_a, &wide_b, 2.0, &mut with_c);
    let [one, turned, into, c, column, row] = products(&a, &b, &x, &unit);
    assert_eq!([&one, &turned, &into, &c], [&exact, &exact, &exact, &with_c]);
    assert_eq!(column, exact.slice(s![.., ..1]));
    assert_eq!(row, exact.slice(s![2..3, ..]));
}

/// Options in the forms that one has them in; a C that is given counts once unless beta says otherwise.
#[test]
fn options_take_arrays_and_numbers() {
    let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").unwrap();
    let a = Array2::from_shape_fn((3, 16), |(i, k)| f16::from_f32((i + k) as f32));
    let b = Array2::from_shape_fn((16, 2), |(k, j)| f16::from_f32((k as f32) - (j as f32)));
    let run = |gemm: Gemm<'_>| gemm.run(&a, &b).unwrap();
    let plain = run(Gemm::on(&unit));
    let lines = Array1::from_vec(vec![2.0f32, 0.5, 4.0]);
    let by_lines = run(Gemm::on(&unit).scale_a(Scaling::Lines(lines.to_vec())));
    assert_eq!(run(Gemm::on(&unit).scale_a(&lines)), by_lines);
    assert_eq!(run(Gemm::on(&unit).scale_a(lines.as_slice().unwrap())), by_lines);
    assert_eq!(run(Gemm::on(&unit).scale_a(lines.to_vec())), by_lines);
    assert_eq!(run(Gemm::on(&unit).scale_b(3.0f32)), run(Gemm::on(&unit).scale_b(Scaling::Tensor(3.0))));
    let bias = Array1::from_vec(vec![1.0f32, 9.0, -1.0, 9.0]);
    let biased = &plain + &ndarray::arr1(&[1.0, -1.0]);
    assert_eq!(run(Gemm::on(&unit).bias(&[1.0, -1.0])), biased);
    assert_eq!(run(Gemm::on(&unit).bias(bias.slice(s![..;2]))), biased);
    assert_eq!(run(Gemm::on(&unit).bias(&bias.slice(s![..;2]).to_owned())), biased);
    let c = Array2::from_elem((3, 2), 8.0f32);
    assert_eq!(run(Gemm::on(&unit).c(&c)), &plain + &c);
    assert_eq!(run(Gemm::on(&unit).c(&c).beta(0.0)), plain);
    assert_eq!(run(Gemm::on(&unit).c(&c).plan(Plan::in_order().start(Start::C))), &plain + &c);
    let wrong = Array2::from_elem((2, 2), 8.0f32);
    assert!(Gemm::on(&unit).c(&wrong).run(&a, &b).unwrap_err().to_string().contains('C'));
}

/// A unit whose d is no c for a second step: small products are refused as large ones are.
#[test]
fn a_second_step_that_cannot_be_is_refused_at_any_size() {
    for name in [
        "volta/mma.m8n8k4.f32.f16.f16.f16",
        "custom/m8n8k4.f32.f16.f16.f16/dot:block=4:F=1:out=rne",
        "custom/m16n8k8.f32.f16.f16.f16/dot:block=8:F=14:nan=quiet",
    ] {
        let unit = Unit::find(name).unwrap();
        let step = unit.shape.k;
        for (m, k) in [(1, step), (8, step), (16, step), (8, 2 * step), (16, 2 * step), (16, 4 * step), (64, 64)] {
            let (a, b) = (Array2::from_elem((m, k), f16::ONE), Array2::from_elem((k, 8), f16::ONE));
            let by_plan = Gemm::on(&unit).run(&a, &b);
            let by_name: Result<Array2<f32>, _> = a.dot_on(&b, &unit);
            assert_eq!(by_plan.is_ok(), k == step, "{name}, {m} x 8 x {k}");
            assert_eq!(by_name.is_ok(), k == step, "{name}, {m} x 8 x {k}");
        }
    }
}
