//! Statements to instructions.

use super::alu::{self, Type};
use super::text::{self, Piece};
use super::{Address, Argument, Guard, Instruction, Kernel, Kind, Operand, SHARED_BASE, Space, Special};
use crate::Fault;
use std::collections::HashMap;

/// Parses the kernel of that name.
pub(crate) fn parse(module: &str, name: &str) -> Result<Kernel, Fault> {
    let text = text::find_kernel(module, name)?;
    let mut parser = Parser::default();
    parser.parents.push(0);
    // The sink of a result that nobody wants.
    parser.declare_registers(0, "_")?;
    let params = parser.parameters(text.params)?;
    let body = text::without_comments(text.body);
    let pieces = text::pieces(&body)?;
    parser.labels(&pieces);
    parser.body(&pieces)?;
    let Parser { code, registers, shared, local, .. } = parser;
    Ok(Kernel { code, registers, shared_bytes: shared, local_bytes: local, params })
}

#[derive(Default)]
struct Parser {
    code: Vec<Instruction>,
    /// Of every scope, the one around it; scope 0 is the body.
    parents: Vec<usize>,
    names: HashMap<(usize, String), Operand>,
    labels: HashMap<(usize, String), usize>,
    registers: usize,
    shared: usize,
    local: usize,
}

impl Parser {
    /// Offsets of the parameters in their space, with their own alignment (PTX ISA 5.1.6.1).
    fn parameters(&mut self, text: &str) -> Result<Vec<(usize, usize)>, Fault> {
        let mut at = 0;
        let mut found = Vec::new();
        for line in text.split(',').map(str::trim).filter(|line| !line.is_empty()) {
            let variable = Variable::parse(line)?;
            at = usize::next_multiple_of(at, variable.align);
            self.names.insert((0, variable.name.to_string()), Operand::Constant(at as u64));
            found.push((variable.bytes, at));
            at += variable.bytes;
        }
        Ok(found)
    }

    /// Labels first: a branch may go forward. Statements that make no instruction are declarations.
    fn labels(&mut self, pieces: &[Piece<'_>]) {
        let (mut stack, mut scopes, mut at) = (vec![0], 1, 0);
        for piece in pieces {
            match piece {
                Piece::Open => {
                    stack.push(scopes);
                    scopes += 1;
                }
                Piece::Close => {
                    stack.pop();
                }
                Piece::Label(name) => {
                    let scope = *stack.last().unwrap_or(&0);
                    self.labels.insert((scope, (*name).to_string()), at);
                }
                Piece::Statement(text) => at += usize::from(!text.starts_with('.')),
            }
        }
    }

    fn body(&mut self, pieces: &[Piece<'_>]) -> Result<(), Fault> {
        let mut scope = 0;
        for piece in pieces {
            match piece {
                Piece::Open => {
                    self.parents.push(scope);
                    scope = self.parents.len() - 1;
                }
                Piece::Close => scope = self.parents[scope],
                Piece::Label(_) => {}
                Piece::Statement(text) if text.starts_with('.') => self.declare(scope, text)?,
                Piece::Statement(text) => {
                    let instruction = self.instruction(scope, text).map_err(|fault| fault.at(text))?;
                    self.code.push(instruction);
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, scope: usize, text: &str) -> Result<(), Fault> {
        let (directive, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match directive {
            ".pragma" => {}
            ".reg" => {
                let (_, names) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest, ""));
                for name in names.split(',').map(str::trim) {
                    self.declare_registers(scope, name)?;
                }
            }
            ".shared" | ".local" => {
                let variable = Variable::parse(text)?;
                let (used, base) =
                    if directive == ".shared" { (&mut self.shared, SHARED_BASE) } else { (&mut self.local, 0) };
                let at = usize::next_multiple_of(*used, variable.align);
                *used = at + variable.bytes;
                self.names.insert((scope, variable.name.to_string()), Operand::Constant((base + at) as u64));
            }
            _ => return Err(Fault::new(format!("directive {text} is not supported"))),
        }
        Ok(())
    }

    /// `%r<70>` stands for `%r0` to `%r69`.
    fn declare_registers(&mut self, scope: usize, name: &str) -> Result<(), Fault> {
        let names = match name.split_once('<') {
            None => vec![name.to_string()],
            Some((prefix, count)) => {
                let count: usize = count.trim_end_matches('>').parse().map_err(|_| Fault::new(name.to_string()))?;
                (0..count).map(|i| format!("{prefix}{i}")).collect()
            }
        };
        for name in names {
            self.names.insert((scope, name), Operand::Register(self.registers));
            self.registers += 1;
        }
        Ok(())
    }

    /// Looks a name up from the innermost scope outwards.
    fn look_up<T: Copy>(&self, table: &HashMap<(usize, String), T>, mut scope: usize, name: &str) -> Option<T> {
        loop {
            if let Some(found) = table.get(&(scope, name.to_string())) {
                return Some(*found);
            }
            if scope == 0 {
                return None;
            }
            scope = self.parents[scope];
        }
    }

    fn operand(&self, scope: usize, text: &str) -> Result<Operand, Fault> {
        if let Some(value) = text::constant(text) {
            return Ok(Operand::Constant(value));
        }
        if let Some(special) = special(text) {
            return Ok(Operand::Special(special));
        }
        self.look_up(&self.names, scope, text).ok_or_else(|| Fault::new(format!("what is {text}?")))
    }

    fn register(&self, scope: usize, text: &str) -> Result<usize, Fault> {
        match self.operand(scope, text)? {
            Operand::Register(register) => Ok(register),
            _ => Err(Fault::new(format!("{text} is no register"))),
        }
    }

    fn vector(&self, scope: usize, text: &str) -> Result<Vec<Operand>, Fault> {
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        inner.split(',').map(|part| self.operand(scope, part.trim())).collect()
    }

    fn registers_of(&self, scope: usize, text: &str) -> Result<Vec<usize>, Fault> {
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        inner.split(',').map(|part| self.register(scope, part.trim())).collect()
    }

    fn address(&self, scope: usize, text: &str) -> Result<Address, Fault> {
        let bad = || Fault::new(format!("{text} is no address"));
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or_else(bad)?;
        let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        let offset = text::constant(offset.trim()).ok_or_else(bad)?;
        Ok(Address { base: self.operand(scope, base.trim())?, offset })
    }

    fn argument(&self, scope: usize, text: &str) -> Result<Argument, Fault> {
        Ok(match text.as_bytes().first() {
            Some(b'{') => Argument::Vector(self.vector(scope, text)?),
            Some(b'[') => Argument::Memory(self.address(scope, text)?),
            _ => Argument::One(self.operand(scope, text)?),
        })
    }

    fn instruction(&self, scope: usize, statement: &str) -> Result<Instruction, Fault> {
        let (guard, rest) = match statement.strip_prefix('@') {
            None => (None, statement),
            Some(rest) => {
                let (name, rest) = rest.split_once(char::is_whitespace).ok_or_else(|| Fault::new("a guard alone"))?;
                let negated = name.starts_with('!');
                let register = self.register(scope, name.trim_start_matches('!'))?;
                (Some(Guard { register, negated }), rest.trim())
            }
        };
        let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let kind = self.kind(scope, opcode, &text::split_operands(operands))?;
        Ok(Instruction { guard, kind, text: statement.to_string() })
    }

    fn kind(&self, scope: usize, opcode: &str, operands: &[&str]) -> Result<Kind, Fault> {
        match (opcode.split('.').next().unwrap_or_default(), operands) {
            ("bra", [target]) => {
                let found = self.look_up(&self.labels, scope, target);
                Ok(Kind::Branch(found.ok_or_else(|| Fault::new(format!("no label {target}")))?))
            }
            ("ret" | "exit", []) => Ok(Kind::Return),
            ("bar", ["0"]) if opcode == "bar.sync" => Ok(Kind::Barrier),
            ("fence", []) => match opcode {
                "fence.proxy.async.shared::cta" | "fence.proxy.async" => Ok(Kind::AsyncFence),
                "fence.mbarrier_init.release.cluster" => Ok(Kind::Ordered),
                _ => Err(Fault::new("this fence is not supported")),
            },
            ("ld" | "st" | "atom", _) => self.memory(scope, opcode, operands),
            ("mma" | "wgmma" | "tcgen05" | "mbarrier", _) => {
                let operands = operands.iter().map(|text| self.argument(scope, text)).collect::<Result<_, _>>()?;
                Ok(Kind::Collective { opcode: opcode.to_string(), operands })
            }
            ("mov", [to, from]) if to.starts_with('{') => {
                let to = self.registers_of(scope, to)?;
                let bits = width(opcode)? / to.len() as u32;
                Ok(Kind::Unpack { to, from: self.operand(scope, from)?, bits })
            }
            ("mov", [to, from]) if from.starts_with('{') => {
                let parts = self.vector(scope, from)?;
                let bits = width(opcode)? / parts.len() as u32;
                Ok(Kind::Pack { to: self.register(scope, to)?, parts, bits })
            }
            (_, [to, sources @ ..]) if sources.len() <= 4 => {
                let function = alu::function(opcode).ok_or_else(|| Fault::new("this opcode is not supported"))?;
                let mut from = [Operand::Constant(0); 4];
                for (slot, text) in from.iter_mut().zip(sources) {
                    *slot = self.operand(scope, text)?;
                }
                Ok(Kind::Alu { function, to: self.register(scope, to)?, from })
            }
            _ => Err(Fault::new("this opcode is not supported")),
        }
    }

    fn memory(&self, scope: usize, opcode: &str, operands: &[&str]) -> Result<Kind, Fault> {
        let parts: Vec<&str> = opcode.split('.').collect();
        let unknown = || Fault::new("this access to memory is not supported");
        let of = parts.last().and_then(|last| Type::parse(last)).ok_or_else(unknown)?;
        let spaces =
            [("param", Space::Param), ("global", Space::Global), ("shared", Space::Shared), ("local", Space::Local)];
        let space = spaces.iter().find(|(name, _)| parts.contains(name)).map(|found| found.1).ok_or_else(unknown)?;
        match (parts[0], operands) {
            ("ld", [to, at]) => {
                Ok(Kind::Load { space, of, to: self.registers_of(scope, to)?, at: self.address(scope, at)? })
            }
            ("st", [at, from]) => {
                Ok(Kind::Store { space, of, from: self.vector(scope, from)?, at: self.address(scope, at)? })
            }
            ("atom", [to, at, from]) if parts.contains(&"exch") => Ok(Kind::Exchange {
                space,
                of,
                to: self.register(scope, to)?,
                at: self.address(scope, at)?,
                from: self.operand(scope, from)?,
            }),
            _ => Err(unknown()),
        }
    }
}

fn width(opcode: &str) -> Result<u32, Fault> {
    let last = opcode.rsplit('.').next().unwrap_or_default();
    Ok(Type::parse(last).ok_or_else(|| Fault::new("a type was expected"))?.bits)
}

fn special(text: &str) -> Option<Special> {
    let (name, axis) = text.strip_prefix('%')?.split_once('.').unwrap_or((&text[1..], "x"));
    let axis = ["x", "y", "z"].iter().position(|&a| a == axis)?;
    Some(match name {
        "tid" => Special::Tid(axis),
        "ntid" => Special::Ntid(axis),
        "ctaid" => Special::Ctaid(axis),
        "nctaid" => Special::Nctaid(axis),
        "laneid" => Special::Lane,
        _ => return None,
    })
}

/// `.shared .align 128 .b8 name[2048]`
struct Variable<'a> {
    name: &'a str,
    bytes: usize,
    align: usize,
}

impl<'a> Variable<'a> {
    fn parse(text: &'a str) -> Result<Self, Fault> {
        let bad = || Fault::new(format!("{text} is no variable"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let of = words.iter().find_map(|word| word.strip_prefix('.').and_then(Type::parse)).ok_or_else(bad)?;
        let align = words.iter().position(|&word| word == ".align").and_then(|at| words.get(at + 1)?.parse().ok());
        let (name, count) = words.last().ok_or_else(bad)?.split_once('[').unwrap_or((words[words.len() - 1], "1]"));
        let count: usize = count.trim_end_matches(']').parse().map_err(|_| bad())?;
        Ok(Self { name, bytes: of.bytes() * count, align: align.unwrap_or(of.bytes()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_registers_are_scoped() {
        let module = ".entry f(.param .u32 f_param_0, .param .align 8 .b8 f_param_1[16])\n{\
            .reg .pred %p<2>; .reg .b32 %r<3>; .shared .align 16 .b8 x[32];\n\
            again: mov.u32 %r1, x;\n{ .reg .pred p; again: setp.eq.s32 p, 1, 1; @!p bra again; }\n\
            @%p1 bra again;\nret; }";
        let kernel = parse(module, "f").unwrap();
        assert_eq!(kernel.params, [(4, 0), (16, 8)]);
        assert_eq!((kernel.registers, kernel.shared_bytes), (7, 32));
        let targets: Vec<_> =
            kernel.code.iter().filter_map(|i| if let Kind::Branch(to) = i.kind { Some(to) } else { None }).collect();
        assert_eq!(targets, [1, 0]);
    }

    #[test]
    fn unknown_opcodes_name_themselves() {
        let module = ".entry f()\n{ .reg .b32 %r<2>; popc.b32 %r0, %r1; }";
        let fault = parse(module, "f").map(|_| ()).unwrap_err();
        assert!(fault.to_string().contains("popc.b32"), "{fault}");
    }
}
