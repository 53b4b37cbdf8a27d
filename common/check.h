#ifndef PHALANX_COMMON_CHECK_H_
#define PHALANX_COMMON_CHECK_H_

// For what only a bug can cause. Aborts with file, line and condition, in every
// build. Never on anything that a client, a file or the network can choose.

#include <cstdio>
#include <cstdlib>

namespace phalanx {

[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace phalanx

#define CHECK(condition)              \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::phalanx::CheckFailed(__FILE__, __LINE__, #condition))

// CHECK where the cost matters: on in the dev preset only.
#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define DCHECK(condition) CHECK(condition)
#endif

#endif  // PHALANX_COMMON_CHECK_H_
