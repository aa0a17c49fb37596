//! What a compact table of version 2 says and one of version 1 does not, as people and programs read it.

use super::registers::{register, saved};
use super::report::hexadecimal;
use super::rules::as_hexadecimal;
use serde::Serialize;
use sframe_format::Abi;
use sframe_format::compact::{Handler, WholeHeader, WholeRules};
use std::collections::BTreeMap;

/// What only the header of version 2 has.
#[derive(Serialize)]
pub struct WholeHeaderDump {
    /// Bytes of all layouts.
    pub layout_bytes: u32,
    /// Number of personality routines.
    pub personalities: u32,
    /// Number of functions that have one.
    pub handlers: u32,
    /// Bytes of the distances to language-specific data.
    pub lsda_bytes: u32,
    /// Number of entries that continue a function.
    pub continued: u32,
}

impl WholeHeaderDump {
    /// The sizes in a header.
    pub fn new(header: &WholeHeader) -> Self {
        let &WholeHeader { layout_bytes, personalities, handlers, lsda_bytes, continued } = header;
        WholeHeaderDump { layout_bytes, personalities, handlers, lsda_bytes, continued }
    }
}

/// What a row of version 2 says besides the CFA, the return address and the frame pointer.
#[derive(Serialize)]
pub struct WholeDump {
    /// The other registers, each with the place of the caller's value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    registers: BTreeMap<String, String>,
    /// The bytes of arguments on the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    args_size: Option<u32>,
    /// AArch64: the key of a signed return address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pauth_key: Option<&'static str>,
}

impl WholeDump {
    /// The rules of a row.
    pub fn new(abi: Abi, rules: &WholeRules<'_>) -> Self {
        let others = rules.others.map(|(number, place)| (register(abi, number), saved(abi, place)));
        WholeDump {
            registers: others.collect(),
            args_size: (rules.args_size > 0).then_some(rules.args_size),
            pauth_key: rules.signed.then_some(if rules.key_b { "b" } else { "a" }),
        }
    }

    /// For people, behind the other rules of the row.
    pub fn text(&self) -> String {
        let mut text: String =
            self.registers.iter().map(|(name, place)| format!(" {name}={place}")).collect();
        text.extend(self.pauth_key.filter(|key| *key == "b").map(|_| " key=b".to_owned()));
        text.extend(self.args_size.map(|size| format!(" arguments={size}")));
        text
    }
}

/// Who handles exceptions that pass a function.
#[derive(Serialize)]
pub struct HandlerDump {
    #[serde(serialize_with = "as_hexadecimal")]
    personality: u64,
    /// Whether that is the address of a pointer to the routine.
    personality_is_indirect: bool,
    /// The address of the language-specific data.
    #[serde(skip_serializing_if = "Option::is_none")]
    lsda: Option<String>,
}

impl HandlerDump {
    /// The handler of a function.
    pub fn new(handler: &Handler) -> Self {
        HandlerDump {
            personality: handler.personality.address,
            personality_is_indirect: handler.personality.indirect,
            lsda: handler.lsda.map(hexadecimal),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let pointer = if self.personality_is_indirect { "*" } else { "" };
        let lsda =
            self.lsda.as_ref().map_or(String::new(), |lsda| format!(", language-specific data {lsda}"));
        format!("personality {pointer}{:#x}{lsda}", self.personality)
    }
}
