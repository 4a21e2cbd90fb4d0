//! Slots, as the servers of a cluster count them.

use super::*;

#[test]
fn a_slot_is_that_of_the_first_braces() {
    // As `CLUSTER KEYSLOT` says.
    for (key, slot) in [("123456789", 12_739), ("foo", 12_182), ("{foo}bar", 12_182), ("x{foo}{bar}", 12_182), ("", 0)]
    {
        assert_eq!(slot_of(key), slot, "{key}");
    }
}
