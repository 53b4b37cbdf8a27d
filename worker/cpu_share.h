#ifndef PHALANX_WORKER_CPU_SHARE_H_
#define PHALANX_WORKER_CPU_SHARE_H_

#include <sched.h>

#include <string>
#include <vector>

namespace phalanx {

// Where the kernel says how CPUs lie.
inline constexpr char kSystemDevices[] = "/sys/devices/system";

// One CPU of the host.
struct Cpu {
  int id = 0;
  int node = 0;  // Of memory that it reaches fastest.
  int core = 0;  // The lowest id among those that share its core.

  bool operator==(const Cpu&) const = default;
};

// The CPUs with these ids, by what `root` says: node/node*/cpulist and
// cpu/cpu*/topology/thread_siblings_list. What it does not say: all on node 0,
// each a core of its own.
std::vector<Cpu> DescribeCpus(const std::vector<int>& ids,
                              const std::string& root);

// The CPUs that this process may use: its affinity mask. Never empty.
std::vector<Cpu> AllowedCpus(const std::string& root = kSystemDevices);

// Which of them one rank computes on.
struct CpuShare {
  int threads = 1;
  std::vector<int> cpus;  // Where to pin them; empty: not pinned.
  bool spin = true;       // False where ranks x threads exceed the CPUs.
};

// Disjoint shares of the host's CPUs, by rank; every rank that is given the
// same `allowed` finds the same ones.
//
// threads 0 means cores / tp_size, one a core. Ranks are spread evenly over the
// nodes, neighbours side by side, each within one node where they fit; where
// they do not, threads 0 gives up to a quarter of its threads for it, and after
// that shares follow each other through the nodes. SMT siblings are used only
// where ranks x threads exceed the cores.
CpuShare ShareCpus(const std::vector<Cpu>& allowed, int rank, int tp_size,
                   int threads);

// Keeps the calling thread on some CPUs as long as the object lives, and the
// threads that it starts meanwhile for good: what they touch first lies in
// those CPUs' memory.
class StayOnCpus {
 public:
  // Empty: anywhere, as before. CPUs that may not be used are no error.
  explicit StayOnCpus(const std::vector<int>& cpus);
  ~StayOnCpus();
  StayOnCpus(const StayOnCpus&) = delete;
  StayOnCpus& operator=(const StayOnCpus&) = delete;

 private:
  cpu_set_t before_;
  cpu_set_t stay_;
  bool moved_ = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CPU_SHARE_H_
