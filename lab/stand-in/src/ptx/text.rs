//! PTX as text: kernels of a module, statements of a body, operands of a statement.

use crate::Fault;

/// The text of one kernel: what lies between the parentheses of its parameters and its body.
#[derive(Debug)]
pub(crate) struct KernelText<'a> {
    pub params: &'a str,
    pub body: &'a str,
}

/// The kernel of that (mangled) name.
pub(crate) fn find_kernel<'a>(module: &'a str, name: &str) -> Result<KernelText<'a>, Fault> {
    let head = format!(".entry {name}(");
    let start = module.find(&head).ok_or_else(|| Fault::new(format!("the module has no kernel {name}")))? + head.len();
    let rest = &module[start..];
    let (params, rest) = rest.split_once(')').ok_or_else(|| Fault::new("parameters do not end"))?;
    let open = rest.find('{').ok_or_else(|| Fault::new("no body"))?;
    let mut depth = 0usize;
    for (at, byte) in rest.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Ok(KernelText { params, body: &rest[open + 1..at] }),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    Err(Fault::new("the body does not end"))
}

/// A body without comments.
pub(crate) fn without_comments(body: &str) -> String {
    body.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// A piece of a body.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    Open,
    Close,
    Label(&'a str),
    Statement(&'a str),
}

/// Splits a body (without comments) into pieces.
pub(crate) fn pieces(body: &str) -> Result<Vec<Piece<'_>>, Fault> {
    let mut rest = body.trim_start();
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let used = if first == '{' || first == '}' {
            found.push(if first == '{' { Piece::Open } else { Piece::Close });
            1
        } else if let Some(label) = label_at(rest) {
            found.push(Piece::Label(label));
            label.len() + 1
        } else {
            let end = rest.find(';').ok_or_else(|| Fault::new(format!("no end of statement: {rest}")))?;
            found.push(Piece::Statement(rest[..end].trim()));
            end + 1
        };
        rest = rest[used..].trim_start();
    }
    Ok(found)
}

/// `name:` at the start, where a second colon would make it part of an opcode.
fn label_at(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c)))?;
    let rest = &text[end..];
    (end > 0 && rest.starts_with(':') && !rest.starts_with("::")).then(|| &text[..end])
}

/// Operands between commas that are in no braces or brackets.
pub(crate) fn split_operands(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0i32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        found.push(last);
    }
    found
}

/// An integer or floating-point constant, as bits (PTX ISA 4.5). `None` for anything else.
pub(crate) fn constant(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    if let Some(hex) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let digits = digits.strip_suffix('U').unwrap_or(digits);
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_pieces_and_operands() {
        let found = pieces("$L0: { .reg .pred p; again: a.b::c p, [%r1+4], {x, y}; @!p bra again; }").unwrap();
        assert_eq!(found.len(), 7);
        assert_eq!(found[0], Piece::Label("$L0"));
        assert_eq!(found[3], Piece::Label("again"));
        assert_eq!(found[4], Piece::Statement("a.b::c p, [%r1+4], {x, y}"));
        assert_eq!(split_operands("p, [%r1+4], {x, y}"), ["p", "[%r1+4]", "{x, y}"]);
    }

    #[test]
    fn reads_constants() {
        assert_eq!(constant("-1"), Some(u64::MAX));
        assert_eq!(constant("0x10"), Some(16));
        assert_eq!(constant("0f3F800000"), Some(0x3f80_0000));
        assert_eq!(constant("%r1"), None);
    }

    #[test]
    fn finds_a_kernel_among_others() {
        let module = ".entry f(\n.param .u64 a\n)\n{ x; { y; } }\n.entry g()\n{ z; }";
        assert_eq!(find_kernel(module, "g").unwrap().body.trim(), "z;");
        assert_eq!(find_kernel(module, "f").unwrap().body.trim(), "x; { y; }");
        assert!(find_kernel(module, "h").is_err());
    }
}
