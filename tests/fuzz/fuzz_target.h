#ifndef PHALANX_TESTS_FUZZ_FUZZ_TARGET_H_
#define PHALANX_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>

// What libFuzzer and replay.cc call for each case: reads the bytes as the file
// that the program is named after, and ends the program (CHECK, or a
// sanitizer) where a promise of the reader is broken. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif  // PHALANX_TESTS_FUZZ_FUZZ_TARGET_H_
