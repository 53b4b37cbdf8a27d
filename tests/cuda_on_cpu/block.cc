#include "tests/cuda_on_cpu/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <random>
#include <set>
#include <span>

#include "common/check.h"
#include "tests/cuda_on_cpu/poison.h"

// Where the linker puts what is __shared__ (device_code.h); absent under
// AddressSanitizer, which guards such arrays itself.
extern "C" {
extern char __start_phalanx_shared[] __attribute__((weak));
extern char __stop_phalanx_shared[] __attribute__((weak));
}

namespace phalanx::cuda_on_cpu {
namespace {

namespace context = boost::context::detail;

constexpr size_t kStackBytes = 64 << 10;

enum class State : uint8_t { kReady, kAtBarrier, kInWarp, kDone };

struct Fiber {
  context::fcontext_t self = nullptr;
  State state = State::kDone;
  dim3 index;
  Site where;  // Of what it waits for.
  // An operation of the warp.
  unsigned mask = 0;
  unsigned source = 0;
  uint64_t value = 0;
  uint64_t result = 0;
};

using Order = std::array<unsigned, kWarpLanes>;
static_assert(kMaxBlockThreads / kWarpLanes <= kWarpLanes);

struct Settings {
  std::minstd_rand random{1};
  std::set<std::string> barriers_seen;
  std::string left_out;
};

Settings& TheSettings() {
  static Settings settings;
  return settings;
}

// Of the host thread: the block that it runs and the fiber in it.
thread_local const std::function<void()>* current_body = nullptr;
thread_local Fiber* current = nullptr;
thread_local unsigned current_lane = 0;
thread_local context::fcontext_t scheduler = nullptr;

// Stacks live until the process ends; a block that could not go on leaves
// frames on them, which the next block overwrites.
char* Stacks() {
  static thread_local char* stacks = [] {
    void* mapped =
        mmap(nullptr, kStackBytes * kMaxBlockThreads, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mapped != MAP_FAILED);
    return static_cast<char*>(mapped);
  }();
  return stacks;
}

bool SamePlace(const Site& a, const Site& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

void BackToScheduler() {
  const context::transfer_t from = context::jump_fcontext(scheduler, nullptr);
  scheduler = from.fctx;
}

void Enter(context::transfer_t from) {
  scheduler = from.fctx;
  (*current_body)();
  current->state = State::kDone;
  BackToScheduler();
}

// The threads of a block, and who may go on.
class Block {
 public:
  Block();

  std::string Run();

 private:
  // As far as it can without the other warps; "" or why it is stuck.
  std::string RunWarp(unsigned warp);
  // Lets lanes go on whose operation is complete; whether there were any.
  bool FinishOperations(unsigned first, unsigned end);
  // Whether all lanes of a fiber's mask have come to its operation.
  bool Complete(const Fiber& fiber, unsigned first, unsigned end) const;
  void Resume(Fiber& fiber, unsigned lane);
  std::string PassBarrier(bool* done);
  std::string Stuck(const Fiber& one, const Fiber& other) const;

  // At most as many as lanes in a warp, or warps in a block.
  std::span<const unsigned> Shuffled(unsigned first, unsigned end,
                                     Order& order) const {
    for (unsigned i = first; i < end; ++i) order[i - first] = i;
    std::shuffle(order.begin(), order.begin() + (end - first),
                 TheSettings().random);
    return {order.data(), end - first};
  }

  std::vector<Fiber> fibers_;
};

Block::Block() : fibers_(blockDim.x * blockDim.y * blockDim.z) {
  CHECK(!fibers_.empty() && fibers_.size() <= kMaxBlockThreads);
  UnpoisonMemory(Stacks(), kStackBytes * fibers_.size());
  for (size_t i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = fibers_[i];
    fiber.state = State::kReady;
    fiber.index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y,
                       i / (blockDim.x * blockDim.y));
    fiber.self = context::make_fcontext(Stacks() + (i + 1) * kStackBytes,
                                        kStackBytes, Enter);
  }
}

std::string Block::Run() {
  const unsigned count = fibers_.size();
  Order order;
  bool done = false;
  while (!done) {
    for (unsigned warp :
         Shuffled(0, (count + kWarpLanes - 1) / kWarpLanes, order)) {
      std::string stuck = RunWarp(warp);
      if (!stuck.empty()) return stuck;
    }
    std::string stuck = PassBarrier(&done);
    if (!stuck.empty()) return stuck;
  }
  return "";
}

void Block::Resume(Fiber& fiber, unsigned lane) {
  current = &fiber;
  current_lane = lane;
  threadIdx = fiber.index;
  const context::transfer_t from = context::jump_fcontext(fiber.self, nullptr);
  fiber.self = from.fctx;
}

std::string Block::RunWarp(unsigned warp) {
  const unsigned first = warp * kWarpLanes;
  const unsigned end =
      std::min(first + kWarpLanes, static_cast<unsigned>(fibers_.size()));
  Order order;
  do {
    for (unsigned i : Shuffled(first, end, order))
      if (fibers_[i].state == State::kReady) Resume(fibers_[i], i - first);
  } while (FinishOperations(first, end));
  for (unsigned i = first; i < end; ++i) {
    const Fiber& fiber = fibers_[i];
    if (fiber.state != State::kInWarp) continue;
    for (unsigned j = first; j < end; ++j)
      if ((fiber.mask >> (j - first) & 1) != 0 && i != j &&
          (fibers_[j].state != State::kInWarp ||
           !SamePlace(fibers_[j].where, fiber.where)))
        return Stuck(fiber, fibers_[j]);
    return Stuck(fiber, fiber);
  }
  return "";
}

bool Block::Complete(const Fiber& fiber, unsigned first, unsigned end) const {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if ((fiber.mask >> lane & 1) == 0) continue;
    if (first + lane >= end) return false;
    const Fiber& other = fibers_[first + lane];
    if (other.state != State::kInWarp || other.mask != fiber.mask ||
        (fiber.mask >> other.source & 1) == 0 ||
        !SamePlace(other.where, fiber.where))
      return false;
  }
  return true;
}

bool Block::FinishOperations(unsigned first, unsigned end) {
  bool finished = false;
  for (unsigned i = first; i < end; ++i) {
    if (fibers_[i].state != State::kInWarp || !Complete(fibers_[i], first, end))
      continue;
    // Every lane takes what it came for before any may bring something new.
    const unsigned mask = fibers_[i].mask;
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      Fiber& fiber = fibers_[first + lane];
      fiber.result = fibers_[first + fiber.source].value;
      fiber.state = State::kReady;
    }
    finished = true;
  }
  return finished;
}

std::string Block::PassBarrier(bool* done) {
  const Fiber* waiting = nullptr;
  for (const Fiber& fiber : fibers_) {
    if (fiber.state == State::kDone) continue;
    if (waiting == nullptr) waiting = &fiber;
    if (!SamePlace(waiting->where, fiber.where)) return Stuck(*waiting, fiber);
  }
  *done = waiting == nullptr;
  if (waiting != nullptr)
    TheSettings().barriers_seen.insert(NameOf(waiting->where));
  for (Fiber& fiber : fibers_)
    if (fiber.state == State::kAtBarrier) fiber.state = State::kReady;
  return "";
}

std::string Block::Stuck(const Fiber& one, const Fiber& other) const {
  const auto told = [](const Fiber& fiber) {
    return "thread " + std::to_string(fiber.index.x) + " " +
           (fiber.state == State::kDone ? "has ended"
                                        : "waits at " + NameOf(fiber.where));
  };
  return "block " + std::to_string(blockIdx.x) + ": " + told(one) + ", " +
         told(other);
}

}  // namespace

std::string RunBlock(const std::function<void()>& body) {
  if (__start_phalanx_shared != nullptr)
    std::memset(__start_phalanx_shared, 0xff,
                __stop_phalanx_shared - __start_phalanx_shared);
  current_body = &body;
  return Block().Run();
}

void WaitForBlock(const Site& where) {
  const std::string& left_out = TheSettings().left_out;
  if (!left_out.empty() && NameOf(where) == left_out) return;
  current->where = where;
  current->state = State::kAtBarrier;
  BackToScheduler();
}

uint64_t ExchangeInWarp(unsigned mask, uint64_t value, unsigned source,
                        const Site& where) {
  Fiber* me = current;
  me->where = where;
  me->mask = mask;
  me->value = value;
  me->source = source;
  me->state = State::kInWarp;
  BackToScheduler();
  return me->result;
}

unsigned MyLane() { return current_lane; }

void SetSeed(uint64_t seed) { TheSettings().random.seed(seed); }

std::string NameOf(const Site& where) {
  const std::string path = where.file_name();
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(where.line());
}

std::vector<std::string> BarriersSeen() {
  const std::set<std::string>& seen = TheSettings().barriers_seen;
  return {seen.begin(), seen.end()};
}

void ForgetBarriers() { TheSettings().barriers_seen.clear(); }

void LeaveOutBarrier(const std::string& barrier) {
  TheSettings().left_out = barrier;
}

}  // namespace phalanx::cuda_on_cpu
