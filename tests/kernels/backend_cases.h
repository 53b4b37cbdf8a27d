#ifndef PHALANX_TESTS_KERNELS_BACKEND_CASES_H_
#define PHALANX_TESTS_KERNELS_BACKEND_CASES_H_

// Every backend that the contract suite is run against.

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace phalanx {

struct BackendCase {
  std::string name;  // Letters, digits and _, as gtest wants it.
  std::function<std::unique_ptr<Backend>(int threads)> make;
  // Operations of ops.h that the backend has no kernel for, as it says itself,
  // and formats of weights ("Int8"), separated by ", ". Tests of theirs are skipped, and say so.
  std::string missing_ops = {};
};

inline std::ostream& operator<<(std::ostream& out, const BackendCase& backend) {
  return out << backend.name;
}

// The operation among missing_ops that the name of a test or of an OpProgram
// has in it, as tests of an operation do; "" if none.
std::string MissingOpOf(const BackendCase& backend, const std::string& name);

// What this machine can run: the reference first, then the served ones.
const std::vector<BackendCase>& BackendCases();

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_BACKEND_CASES_H_
