//! Limits the number of messages that users see.

use super::{Code, Diagnostic, Severity};
use std::collections::HashMap;

/// How many messages are not shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeftOut {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

/// Removes errors beyond `limit` together with all messages after them, and warnings beyond `limit` of each
/// [`Code`]. The first messages of a kind say what the next thousand would repeat, and the others would hide
/// the other kinds.
pub fn limit_messages(diagnostics: &mut Vec<Diagnostic>, limit: usize) -> LeftOut {
    let is_error = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Error;
    let end = diagnostics.iter().enumerate().filter(|(_, it)| is_error(it)).nth(limit).map(|(end, _)| end);
    let rest = diagnostics.split_off(end.unwrap_or(diagnostics.len()));
    let shown = diagnostics.len();
    let mut of_code: HashMap<Code, usize> = HashMap::new();
    diagnostics.retain(|diagnostic| {
        if diagnostic.severity != Severity::Warning {
            return true;
        }
        let number = of_code.entry(diagnostic.code).or_default();
        *number += 1;
        *number <= limit
    });
    LeftOut { errors: rest.iter().filter(|it| is_error(it)).count(), warnings: shown - diagnostics.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_a_kind_and_errors_have_a_limit() {
        let warning = |code| Diagnostic::warning(code, "m");
        let error = || Diagnostic::error(Code::Internal, "m");
        let mut all = vec![
            warning(Code::SFrameCorrupt),
            warning(Code::SFrameCorrupt),
            warning(Code::SFrameCorrupt),
            warning(Code::SFrameNote),
            Diagnostic::new(Severity::Note, Code::SFrameNote, "n"),
            error(),
            error(),
            error(),
            warning(Code::SFrameDeadRows),
        ];
        let left = limit_messages(&mut all, 2);
        assert_eq!(left, LeftOut { errors: 1, warnings: 1 });
        let codes: Vec<Code> = all.iter().map(|diagnostic| diagnostic.code).collect();
        let frames = [Code::SFrameCorrupt, Code::SFrameCorrupt, Code::SFrameNote, Code::SFrameNote];
        assert_eq!(codes, [&frames[..], &[Code::Internal; 2]].concat());
        assert_eq!(limit_messages(&mut all, usize::MAX), LeftOut::default());
    }
}
