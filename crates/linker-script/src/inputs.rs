//! Finds the names of inputs in a script's text, with their places, so that the text can be rewritten with
//! other names.

use super::lex::{Lexer, Mode, TokenKind};
use std::ops::Range;

/// Commands whose arguments are inputs.
const COMMANDS: [&[u8]; 3] = [b"INPUT", b"GROUP", b"STARTUP"];

/// The name of an input as it is in the script: a file, or `-l` and the name of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputName<'a> {
    /// Its bytes, without quotes.
    pub name: &'a [u8],
    /// Where it stands in the text, with its quotes.
    pub place: Range<usize>,
}

/// The inputs that `INPUT`, `GROUP` and `STARTUP` name, in their order. If the text is not a script, these
/// are the names that look like inputs before the first place that cannot be read.
pub fn input_names(text: &[u8]) -> Vec<InputName<'_>> {
    arguments(text, &COMMANDS)
}

/// The folders that `SEARCH_DIR` names, in their order.
pub fn search_folders(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    arguments(text, &[b"SEARCH_DIR"]).into_iter().map(|folder| folder.name)
}

/// The arguments of these commands.
fn arguments<'a>(text: &'a [u8], commands: &[&[u8]]) -> Vec<InputName<'a>> {
    let mut found = Vec::new();
    if u32::try_from(text.len()).is_err() {
        return found;
    }
    let mut lexer = Lexer::new(0, text);
    loop {
        let token = lexer.next(Mode::Statement);
        match token.kind {
            TokenKind::End | TokenKind::Unclosed => return found,
            TokenKind::Word if commands.contains(&lexer.bytes(token)) => {
                let before = lexer;
                if lexer.next(Mode::Statement).is("(") {
                    names(&mut lexer, &mut found);
                } else {
                    lexer = before;
                }
            }
            // Skips the descriptions of output sections, because the names in them are patterns.
            TokenKind::Mark("{") if lexer.skip_block().is_err() => return found,
            _ => {}
        }
    }
}

/// Names up to the closing parenthesis.
fn names<'a>(lexer: &mut Lexer<'a>, found: &mut Vec<InputName<'a>>) {
    let mut depth = 1;
    while depth > 0 {
        let token = lexer.next(Mode::FileList);
        match token.kind {
            TokenKind::End | TokenKind::Unclosed => return,
            TokenKind::Mark("(") => depth += 1,
            TokenKind::Mark(")") => depth -= 1,
            TokenKind::Word | TokenKind::Quoted if lexer.bytes(token) != b"AS_NEEDED" => {
                let start = token.span.start as usize;
                let place = start..start + token.span.length as usize;
                found.push(InputName { name: lexer.bytes(token), place });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{input_names, search_folders};

    #[test]
    fn names_are_found_where_commands_take_inputs() {
        let text = b"/* INPUT(no.o) */ OUTPUT_FORMAT(elf64-x86-64)\nGROUP ( /lib/libc.so.6 \"a b.o\",c.a AS_NEEDED ( -lm d.o ) )
            SECTIONS { .x : { INPUT(e.o) } } STARTUP(f.o) INPUT = 3; INPUT(g";
        let found = input_names(text);
        let names: Vec<_> = found.iter().map(|it| String::from_utf8_lossy(it.name)).collect();
        assert_eq!(names, ["/lib/libc.so.6", "a b.o", "c.a", "-lm", "d.o", "f.o", "g"]);
        assert_eq!(&text[found[1].place.clone()], b"\"a b.o\"");
        assert!(input_names(b"\"INPUT(a.o").is_empty());
        let folders: Vec<_> = search_folders(b"SEARCH_DIR(a); INPUT(b) SEARCH_DIR(\"=/c d\")").collect();
        assert_eq!(folders, [&b"a"[..], b"=/c d"]);
    }
}
