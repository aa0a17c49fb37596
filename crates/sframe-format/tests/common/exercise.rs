//! Everything that can be asked of bytes; the fuzz targets and the tests run the same.

include!("../../fuzz/exercise.rs");
