#ifndef PHALANX_COMMON_ALLOCATOR_H_
#define PHALANX_COMMON_ALLOCATOR_H_

namespace phalanx {

// Lets the C library's allocator have one arena for each processor, not eight:
// each keeps what its busiest moment took, so that with more of them than
// threads that run at once a process under load goes on growing, arena by
// arena, for nothing. First thing in main, before there is a second thread.
void LimitAllocatorArenas();

}  // namespace phalanx

#endif  // PHALANX_COMMON_ALLOCATOR_H_
