//! SFrame stack-trace sections: versions 1 to 3, both byte orders.
#![no_std]
