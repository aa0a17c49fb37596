//! Tests of `sframe verify` on what real assemblers wrote.
