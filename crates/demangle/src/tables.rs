//! Codes of operators, builtin types and abbreviations (Itanium C++ ABI, "Mangling").

use crate::tree::{Builtin, Literal, Operator};

macro_rules! operators {
    ($($code:literal $text:literal $operands:literal,)*) => {
        &[$(Operator { code: $code, text: $text, operands: $operands }),*]
    };
}

/// Sorted by code.
static OPERATORS: &[Operator] = operators! {
    "aN" "&=" 2, "aS" "=" 2, "aa" "&&" 2, "ad" "&" 1, "an" "&" 2, "at" "alignof " 1,
    "aw" "co_await " 1, "az" "alignof " 1, "cc" "const_cast" 2, "cl" "()" 2, "cm" "," 2,
    "co" "~" 1, "dV" "/=" 2, "dX" "[...]=" 3, "da" "delete[] " 1, "dc" "dynamic_cast" 2,
    "de" "*" 1, "di" "=" 2, "dl" "delete " 1, "ds" ".*" 2, "dt" "." 2, "dv" "/" 2, "dx" "]=" 2,
    "eO" "^=" 2, "eo" "^" 2, "eq" "==" 2, "fL" "..." 3, "fR" "..." 3, "fl" "..." 2,
    "fr" "..." 2, "ge" ">=" 2, "gs" "::" 1, "gt" ">" 2, "ix" "[]" 2, "lS" "<<=" 2, "le" "<=" 2,
    "li" "operator\"\" " 1, "ls" "<<" 2, "lt" "<" 2, "mI" "-=" 2, "mL" "*=" 2, "mi" "-" 2,
    "ml" "*" 2, "mm" "--" 1, "na" "new[]" 3, "ne" "!=" 2, "ng" "-" 1, "nt" "!" 1, "nw" "new" 3,
    "nx" "noexcept" 1, "oR" "|=" 2, "oo" "||" 2, "or" "|" 2, "pL" "+=" 2, "pl" "+" 2,
    "pm" "->*" 2, "pp" "++" 1, "ps" "+" 1, "pt" "->" 2, "qu" "?" 3, "rM" "%=" 2, "rS" ">>=" 2,
    "rc" "reinterpret_cast" 2, "rm" "%" 2, "rs" ">>" 2, "sP" "sizeof..." 1, "sZ" "sizeof..." 1,
    "sc" "static_cast" 2, "ss" "<=>" 2, "st" "sizeof " 1, "sz" "sizeof " 1, "tr" "throw" 0,
    "tw" "throw " 1,
};

/// The operator with this code.
pub fn operator(code: [u8; 2]) -> Option<&'static Operator> {
    let row = OPERATORS.binary_search_by(|operator| operator.code.as_bytes().cmp(&code)).ok()?;
    OPERATORS.get(row)
}

macro_rules! builtins {
    ($($letter:literal $name:literal $literal:expr,)*) => {
        &[$(($letter, Builtin { name: $name, literal: $literal })),*]
    };
}

static BUILTINS: &[(u8, Builtin)] = builtins! {
    b'a' "signed char" Literal::Cast, b'b' "bool" Literal::Bool, b'c' "char" Literal::Cast,
    b'd' "double" Literal::Float, b'e' "long double" Literal::Float, b'f' "float" Literal::Float,
    b'g' "__float128" Literal::Float, b'h' "unsigned char" Literal::Cast,
    b'i' "int" Literal::Suffix(""), b'j' "unsigned int" Literal::Suffix("u"),
    b'l' "long" Literal::Suffix("l"), b'm' "unsigned long" Literal::Suffix("ul"),
    b'n' "__int128" Literal::Cast, b'o' "unsigned __int128" Literal::Cast,
    b's' "short" Literal::Cast, b't' "unsigned short" Literal::Cast, b'v' "void" Literal::Cast,
    b'w' "wchar_t" Literal::Cast, b'x' "long long" Literal::Suffix("ll"),
    b'y' "unsigned long long" Literal::Suffix("ull"), b'z' "..." Literal::Cast,
};

/// The builtin type with this letter.
pub fn builtin(letter: u8) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|(known, _)| *known == letter).map(|(_, builtin)| builtin)
}

/// Builtin types of two letters, by the letter after the `D`.
static OTHERS: &[(u8, Builtin)] = builtins! {
    b'a' "auto" Literal::Cast, b'c' "decltype(auto)" Literal::Cast,
    b'd' "decimal64" Literal::Cast, b'e' "decimal128" Literal::Cast,
    b'f' "decimal32" Literal::Cast, b'h' "half" Literal::Float, b'i' "char32_t" Literal::Cast,
    b'n' "decltype(nullptr)" Literal::Cast, b's' "char16_t" Literal::Cast,
    b'u' "char8_t" Literal::Cast,
};

/// The builtin type of `D` and a letter.
pub fn other_builtin(letter: u8) -> Option<&'static Builtin> {
    OTHERS.iter().find(|(known, _)| *known == letter).map(|(_, builtin)| builtin)
}

/// An abbreviation of a name in the standard library.
pub struct Abbreviation {
    pub short: &'static str,
    /// The name with template arguments, which constructors and destructors need.
    pub full: &'static str,
    /// The name of its constructors.
    pub last: &'static str,
}

/// The abbreviation with this letter.
pub fn abbreviation(letter: u8) -> Option<Abbreviation> {
    let (short, full, last) = match letter {
        b't' => ("std", "std", ""),
        b'a' => ("std::allocator", "std::allocator", "allocator"),
        b'b' => ("std::basic_string", "std::basic_string", "basic_string"),
        b's' => (
            "std::string",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
            "basic_string",
        ),
        b'i' => ("std::istream", "std::basic_istream<char, std::char_traits<char> >", "basic_istream"),
        b'o' => ("std::ostream", "std::basic_ostream<char, std::char_traits<char> >", "basic_ostream"),
        b'd' => ("std::iostream", "std::basic_iostream<char, std::char_traits<char> >", "basic_iostream"),
        _ => return None,
    };
    Some(Abbreviation { short, full, last })
}

#[cfg(test)]
mod tests {
    use super::OPERATORS;

    #[test]
    fn operators_are_sorted() {
        assert!(OPERATORS.is_sorted_by(|a, b| a.code < b.code));
    }
}
