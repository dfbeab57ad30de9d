//! The tree that fits the fates of y beside X and -X at every three places.
//!
//! Of three places, either two meet before the third joins them, or all meet at once. Where a, b meet first, y in c
//! survives X in a and -X in b, and y in a or b is lost, as it is rounded beside one X. Where all meet at once, y is
//! lost wherever it is, or in an exact sum nowhere. So what is lost within few bits leaves trees open that more would
//! tell apart: then there is none.

use super::{Node, pairs};

/// Places as a bit set; c is place K.
pub(super) type Places = u128;

/// What became of y.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) lost: bool,
    /// By how many powers of two it was below X.
    pub(super) reach: i32,
}

/// The fates of y at all places beside X and -X at all pairs of others.
pub(super) struct Triples {
    /// Terms, c among them.
    pub(super) n: usize,
    /// By pair, then by y's place.
    pub(super) fates: Vec<Fate>,
    /// The reach at which X + y is rounded to X whatever the format of partial sums: of two products, and beside c.
    pub(super) rounded: [i32; 2],
}

/// Why there is no tree.
pub(super) enum Unfit {
    /// No tree gives these answers.
    None,
    /// Several do.
    Several,
}

/// Which places are at or below the sum where a pair meets, and which are not.
#[derive(Clone, Copy)]
struct Meeting {
    inside: Places,
    outside: Places,
}

impl Triples {
    /// Where in `fates` the one is of X in i, -X in j and y in l.
    pub(super) fn at(&self, i: usize, j: usize, l: usize) -> usize {
        let (i, j) = (i.min(j), i.max(j));
        pair_index(self.n, i, j) * (self.n - 2) + l - usize::from(l > i) - usize::from(l > j)
    }

    pub(super) fn loses(&self) -> bool {
        self.fates.iter().any(|f| f.lost)
    }

    /// Whether c is at or below the sum where a and b meet, if the answers tell.
    fn meets(&self, [a, b, c]: [usize; 3]) -> Option<bool> {
        let of = |i, j, l| self.fates[self.at(i, j, l)];
        let (here, others) = (of(a, b, c), [of(b, c, a), of(a, c, b)]);
        if here.lost {
            return Some(true);
        }
        if others.iter().any(|f| f.lost && f.reach <= here.reach) {
            return Some(false);
        }
        // Two that meet before the third joins would have rounded y away: no two do if that is seen of all.
        let meet_first = |i, j, l: usize| {
            let c = self.n - 1;
            let rounded = self.rounded[usize::from(i == c || j == c || of(i, j, c).lost)];
            let survives = |f: Fate| !f.lost && f.reach >= rounded;
            !of(i, j, l).lost && !survives(of(j, l, i)) && !survives(of(i, l, j))
        };
        (!meet_first(a, b, c) && !meet_first(a, c, b) && !meet_first(b, c, a)).then_some(true)
    }

    fn meeting(&self, i: usize, j: usize) -> Meeting {
        let mut meeting = Meeting { inside: 1 << i | 1 << j, outside: 0 };
        for l in (0..self.n).filter(|&l| l != i && l != j) {
            match self.meets([i, j, l]) {
                Some(true) => meeting.inside |= 1 << l,
                Some(false) => meeting.outside |= 1 << l,
                None => {}
            }
        }
        meeting
    }

    /// The only tree that gives these answers.
    pub(super) fn tree(&self) -> Result<Node, Unfit> {
        let n = self.n;
        let whole = if n == 128 { Places::MAX } else { (1 << n) - 1 };
        let mut meetings: Vec<Meeting> = pairs(n).map(|(i, j)| self.meeting(i, j)).collect();
        if meetings.iter().any(|m| m.inside | m.outside != whole) {
            conclude(n, &mut meetings);
        }
        if meetings.iter().any(|m| m.inside & m.outside != 0) {
            return Err(Unfit::None);
        }
        if meetings.iter().any(|m| m.inside | m.outside != whole) {
            return Err(Unfit::Several);
        }
        let mut subtrees: Vec<Places> = meetings.iter().map(|m| m.inside).collect();
        subtrees.sort_unstable_by_key(|s| (s.count_ones(), *s));
        subtrees.dedup();
        let nested = |a: Places, b: Places| a & b == 0 || a & b == a || a & b == b;
        if subtrees.iter().any(|&a| subtrees.iter().any(|&b| !nested(a, b))) {
            return Err(Unfit::None);
        }
        // Each pair must meet in the smallest sum that holds both.
        let smallest = |pair: Places| subtrees.iter().copied().find(|s| s & pair == pair);
        let fits = |((i, j), m): ((usize, usize), &Meeting)| smallest(1 << i | 1 << j) == Some(m.inside);
        if !subtrees.contains(&whole) || !pairs(n).zip(&meetings).all(fits) {
            return Err(Unfit::None);
        }
        Ok(grow(whole, &subtrees, n - 1))
    }
}

/// What follows for pairs within one another's sums: two that are below a sum meet in it or below, with what they meet.
fn conclude(n: usize, meetings: &mut [Meeting]) {
    loop {
        let mut changed = false;
        for outer in 0..meetings.len() {
            let members: Vec<usize> = (0..n).filter(|i| meetings[outer].inside >> i & 1 == 1).collect();
            for (at, &a) in members.iter().enumerate() {
                for &b in &members[at + 1..] {
                    let inner = pair_index(n, a, b);
                    let (inside, outside) = (meetings[inner].inside, meetings[outer].outside);
                    changed |= inside & !meetings[outer].inside != 0 || outside & !meetings[inner].outside != 0;
                    meetings[outer].inside |= inside;
                    meetings[inner].outside |= outside;
                }
            }
        }
        if !changed {
            return;
        }
    }
}

/// Where [`pairs`] has a pair with i < j.
const fn pair_index(n: usize, i: usize, j: usize) -> usize {
    i * n - i * (i + 1) / 2 + (j - i - 1)
}

/// The node of a set of places: its largest proper subtrees and what is left.
fn grow(set: Places, subtrees: &[Places], k: usize) -> Node {
    let mut left = set;
    let mut children: Vec<(u32, Node)> = Vec::new();
    for &sub in subtrees.iter().rev() {
        if sub != set && sub & left == sub {
            left &= !sub;
            children.push((order(sub, k), grow(sub, subtrees, k)));
        }
    }
    for i in (0..=k).filter(|i| left >> i & 1 == 1) {
        children.push((order(1 << i, k), if i == k { Node::C } else { Node::Product(i) }));
    }
    children.sort_by_key(|(at, _)| *at);
    Node::Sum(children.into_iter().map(|(_, node)| node).collect())
}

/// Earlier sums first, then c, then products in order.
const fn order(set: Places, k: usize) -> u32 {
    if set >> k & 1 == 1 { 0 } else { 1 + set.trailing_zeros() }
}
