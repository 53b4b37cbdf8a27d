#ifndef PHALANX_COMMON_VERSION_H_
#define PHALANX_COMMON_VERSION_H_

namespace phalanx {

// Of every binary; ranks of unlike versions do not form a group.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace phalanx

#endif  // PHALANX_COMMON_VERSION_H_
