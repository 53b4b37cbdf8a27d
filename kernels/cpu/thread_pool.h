#ifndef PHALANX_KERNELS_CPU_THREAD_POOL_H_
#define PHALANX_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace phalanx {

// Where the pool's threads run and how they wait.
struct ThreadPoolConfig {
  int threads = 1;        // The caller counts as one.
  std::vector<int> cpus;  // One a thread, to pin it; empty: not pinned.
  bool spin = true;       // 50 us by the clock before sleeping; off where
                          // ranks x threads exceed the CPUs allowed.
};

// A fixed set of threads that run one parallel loop at a time. Made by the
// backend; its threads end with it. FTZ and DAZ are set on each of them and, in
// the constructor, on the calling thread.
class ThreadPool {
 public:
  explicit ThreadPool(const ThreadPoolConfig& config);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Prepares the calling thread to call ParallelFor and to compute: sets FTZ
  // and DAZ and pins it to the first of config.cpus. Free after its first call
  // on a thread.
  void AdoptCaller();

  // Calls body(i) for every i in [0, count), each once, on any thread; returns
  // when all are done. Indices are handed out one at a time, so make them few
  // and coarse. One caller at a time; body must not call ParallelFor.
  template <typename Body>
  void ParallelFor(int64_t count, const Body& body) {
    if (count <= 0) return;
    if (count == 1 || threads() == 1) {
      for (int64_t i = 0; i < count; ++i) body(i);
      return;
    }
    Run(count, &body, [](const void* context, int64_t i) {
      (*static_cast<const Body*>(context))(i);
    });
  }

 private:
  using Call = void (*)(const void* context, int64_t index);
  void Run(int64_t count, const void* context, Call call);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_THREAD_POOL_H_
