#ifndef PHALANX_WORKER_BENCH_MACHINE_TEXT_H_
#define PHALANX_WORKER_BENCH_MACHINE_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "worker/bench/roofs.h"

namespace phalanx {

// {one, all, ping_pong_ns}: the first two {read_bytes_per_second,
// f32_fma_flops, bf16_dot_flops, int8_dot_ops}, null for what the machine has
// not.
nlohmann::ordered_json MachineJson(const MachineRoofs& roofs);

// A table of what the machine could do before and after a bench, for a person.
std::string MachineText(const MachineRoofs& before, const MachineRoofs& after);

// Right-aligned columns as wide as they need, two spaces between them; the
// first one is aligned to the left.
std::string AlignedTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_MACHINE_TEXT_H_
