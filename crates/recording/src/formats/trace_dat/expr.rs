//! The C expressions in the print formats of events: `REC->x`, constants, operators, the choice
//! `a ? b : c`, and the tables of `__print_flags` and `__print_symbolic`.

use super::format::Format;
use crate::input::source::Endian;

/// An expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expr {
    Number(u64),
    Text(String),
    /// A name of the kernel whose value is unknown here.
    Unknown,
    /// The index of a field of the format.
    Field(usize),
    Unary(u8, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    Flags(Box<Expr>, String, Vec<(u64, String)>),
    Symbolic(Box<Expr>, Vec<(u64, String)>),
}

/// The value of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
}

impl Value {
    fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Text(_) => 0,
        }
    }
}

/// Binary operators in order of increasing precedence.
const OPERATORS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];
/// The maximum nesting, far above that of any kernel; it bounds the stack.
const DEPTH_LIMIT: usize = 200;

/// Parses expressions.
pub(crate) struct Parser<'a> {
    rest: &'a str,
    format: &'a Format,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, format: &'a Format) -> Self {
        Self { rest: text.trim_start(), format, depth: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Parses a quoted text; adjacent texts are concatenated.
    pub(crate) fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut any = false;
        while let Some(rest) = self.rest.strip_prefix('"') {
            any = true;
            let mut chars = rest.char_indices();
            loop {
                match chars.next()? {
                    (at, '"') => {
                        self.rest = rest[at + 1..].trim_start();
                        break;
                    }
                    (_, '\\') => match chars.next()?.1 {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        c => text.push(c),
                    },
                    (_, c) => text.push(c),
                }
            }
        }
        any.then_some(text)
    }

    pub(crate) fn expr(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return None;
        }
        let condition = self.binary(0)?;
        let expr = if self.eat("?") {
            let then = self.expr()?;
            if !self.eat(":") {
                return None;
            }
            let otherwise = self.expr()?;
            Expr::Choice(condition.into(), then.into(), otherwise.into())
        } else {
            condition
        };
        self.depth -= 1;
        Some(expr)
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            let right = self.binary(level + 1)?;
            left = Expr::Binary(operator, left.into(), right.into());
        }
        Some(left)
    }

    fn operator(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        let found = operators.iter().find(|operator| self.rest.starts_with(**operator))?;
        // `|` must not match the start of `||`, nor `<` that of `<<`, and so on.
        let next = self.rest.as_bytes().get(found.len());
        if found.len() == 1 && next == self.rest.as_bytes().first() && *found != "-" {
            return None;
        }
        self.eat(found);
        Some(found)
    }

    fn unary(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return None;
        }
        let expr = match self.rest.as_bytes().first()? {
            &operator @ (b'~' | b'!' | b'-') => {
                self.rest = self.rest[1..].trim_start();
                Expr::Unary(operator, self.unary()?.into())
            }
            b'(' => {
                if self.cast() {
                    self.unary()?
                } else {
                    self.rest = self.rest[1..].trim_start();
                    let expr = self.expr()?;
                    if !self.eat(")") {
                        return None;
                    }
                    expr
                }
            }
            b'"' => Expr::Text(self.text()?),
            b'0'..=b'9' => self.literal()?,
            _ => self.name()?,
        };
        self.depth -= 1;
        Some(expr)
    }

    /// Skips a cast `(type)` before a value.
    fn cast(&mut self) -> bool {
        let Some(end) = self.rest.find(')') else { return false };
        let inner = &self.rest[1..end];
        let is_type = inner.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && inner.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | '*'))
            && inner.trim() != "REC";
        let after = self.rest[end + 1..].trim_start();
        let starts_value =
            after.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | '~'));
        if is_type && starts_value {
            self.rest = after;
        }
        is_type && starts_value
    }

    fn literal(&mut self) -> Option<Expr> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let digits = self.rest[..end].trim_end_matches(['U', 'L', 'u', 'l']);
        let number = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None if digits.len() > 1 && digits.starts_with('0') => {
                u64::from_str_radix(digits, 8).ok()?
            }
            None => digits.parse().ok()?,
        };
        self.rest = self.rest[end..].trim_start();
        Some(Expr::Number(number))
    }

    fn name(&mut self) -> Option<Expr> {
        if self.eat("REC->") {
            let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            let index = self.format.fields.iter().position(|field| field.name == name)?;
            self.rest = rest.trim_start();
            return Some(Expr::Field(index));
        }
        if self.eat("__print_flags(") {
            let value = self.expr()?;
            let (true, separator, true) = (self.eat(","), self.text()?, self.eat(",")) else {
                return None;
            };
            return Some(Expr::Flags(value.into(), separator, self.table()?));
        }
        if self.eat("__print_symbolic(") {
            let value = self.expr()?;
            let true = self.eat(",") else { return None };
            return Some(Expr::Symbolic(value.into(), self.table()?));
        }
        if self.eat("__get_str(") {
            let end = self.rest.find(')')?;
            let name = self.rest[..end].trim();
            let index = self.format.fields.iter().position(|field| field.name == name)?;
            self.rest = self.rest[end + 1..].trim_start();
            return Some(Expr::Field(index));
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let rest = rest.trim_start();
        // Other functions are unknown.
        if name.is_empty() || name == "REC" || rest.starts_with('(') {
            return None;
        }
        self.rest = rest;
        Some(Expr::Unknown)
    }

    /// Parses `{ value, "name" }, ... )`.
    fn table(&mut self) -> Option<Vec<(u64, String)>> {
        let mut table = Vec::new();
        while self.eat("{") {
            let value = self.expr()?.constant()?;
            let true = self.eat(",") else { return None };
            // The table may end with an entry without a name: `{ 0, ((void *)0) }`.
            match self.text() {
                Some(name) => table.push((value, name)),
                None => drop(self.expr()?),
            }
            let true = self.eat("}") else { return None };
            self.eat(",");
        }
        self.eat(")").then_some(table)
    }
}

impl Expr {
    fn constant(&self) -> Option<u64> {
        match self.eval(&Format::default(), &[], Endian::Little)? {
            Value::Number(number) => Some(number),
            Value::Text(_) => None,
        }
    }

    /// Returns the value for a record; `None` if the record is too short or the value is unknown.
    pub(crate) fn eval(&self, format: &Format, record: &[u8], endian: Endian) -> Option<Value> {
        let eval = |expr: &Self| expr.eval(format, record, endian);
        Some(match self {
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Unknown => return None,
            Self::Field(index) => {
                let field = format.fields.get(*index)?;
                if field.array || field.data_loc {
                    let text = field.text(record, endian)?;
                    Value::Text(String::from_utf8_lossy(text).into_owned())
                } else {
                    Value::Number(field.read(record, endian)?)
                }
            }
            Self::Unary(operator, expr) => {
                let number = eval(expr)?.number();
                Value::Number(match operator {
                    b'~' => !number,
                    b'!' => u64::from(number == 0),
                    _ => number.wrapping_neg(),
                })
            }
            Self::Binary(operator, left, right) => {
                Value::Number(binary(operator, eval(left)?.number(), eval(right)?.number()))
            }
            Self::Choice(condition, then, otherwise) => {
                eval(if eval(condition)?.number() != 0 { then } else { otherwise })?
            }
            Self::Flags(value, separator, table) => {
                Value::Text(flags_text(eval(value)?.number(), separator, table))
            }
            Self::Symbolic(value, table) => {
                let number = eval(value)?.number();
                let entry = table.iter().find(|(value, _)| *value == number);
                Value::Text(entry.map_or_else(|| format!("{number:#x}"), |(_, name)| name.clone()))
            }
        })
    }

    /// Returns the table of the first `__print_flags` in the expression.
    pub(crate) fn flag_table(&self) -> Option<&[(u64, String)]> {
        match self {
            Self::Flags(_, _, table) => Some(table),
            Self::Choice(a, b, c) => {
                a.flag_table().or_else(|| b.flag_table()).or_else(|| c.flag_table())
            }
            _ => None,
        }
    }
}

fn binary(operator: &str, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a as i64, b as i64);
    match operator {
        "||" => u64::from(a != 0 || b != 0),
        "&&" => u64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => u64::from(a == b),
        "!=" => u64::from(a != b),
        "<=" => u64::from(sa <= sb),
        ">=" => u64::from(sa >= sb),
        "<" => u64::from(sa < sb),
        ">" => u64::from(sa > sb),
        "<<" => a.wrapping_shl(b as u32),
        ">>" => a.wrapping_shr(b as u32),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b).unwrap_or(0),
        _ => a.checked_rem(b).unwrap_or(0),
    }
}

/// Formats flags as the kernel prints them: each entry whose bits are all set, in the order of the table, then
/// the remaining bits as a hexadecimal number.
pub(crate) fn flags_text(mut flags: u64, separator: &str, table: &[(u64, String)]) -> String {
    let mut text = String::new();
    let mut push = |part: &str| {
        if !text.is_empty() {
            text.push_str(separator);
        }
        text.push_str(part);
    };
    for (mask, name) in table {
        if *mask != 0 && flags & mask == *mask {
            push(name);
            flags &= !mask;
        }
    }
    if flags != 0 {
        push(&format!("{flags:#x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Value) {
        let format = Format::parse(
            "t",
            "name: t\nID: 1\n\tfield:int a;\toffset:0;\tsize:1;\tsigned:1;\n\
             \tfield:bool b;\toffset:1;\tsize:1;\tsigned:0;\n",
        )
        .unwrap();
        let mut parser = Parser::new(text, &format);
        let expr = parser.expr().expect("an expression");
        assert!(parser.is_at_end(), "left: {}", parser.rest);
        assert_eq!(expr.eval(&format, &[0xff, 6], Endian::Little), Some(expect), "{text}");
    }

    #[test]
    fn expressions_have_c_values() {
        let text = |text: &str| Value::Text(text.to_owned());
        check("1 + 2 * 3", Value::Number(7));
        check("( unsigned long)((((1UL))) << (10)) | 0x3", Value::Number(0x403));
        check("REC->a", Value::Number(u64::MAX));
        check("REC->a != -1UL ? REC->a : 0", Value::Number(0));
        check(
            "(REC->b) ? __print_flags(REC->b, \"|\", {2, \"x\"}, {4, \"y\"} ) : \"none\"",
            text("x|y"),
        );
        check(
            "__print_flags(REC->b, \"|\", { ( gfp_t)(2), \"x\" }, {0, ((void *)0) })",
            text("x|0x4"),
        );
        check("__print_symbolic(REC->b, {5, \"five\"}, {6, \"six\"})", text("six"));
        check("!REC->b || ~0 == -1", Value::Number(1));
        check("(void *)REC->b", Value::Number(6));
        check("0 ? ((struct page *)vmemmap_base) + 1 : 2", Value::Number(2));
    }

    #[test]
    fn invalid_expressions_are_rejected() {
        let format = Format::default();
        let deep = "(".repeat(100_000);
        for text in ["", "(1", "1 ? 2", "foo(1)", "REC->x", "\"open", "{", &deep] {
            assert_eq!(Parser::new(text, &format).expr(), None, "{text:.20}");
        }
    }
}
