#ifndef PHALANX_WORKER_CHECKPOINT_DIGEST_H_
#define PHALANX_WORKER_CHECKPOINT_DIGEST_H_

#include <string>

#include "worker/checkpoint/checkpoint.h"

namespace phalanx {

// A SHA-256, in 64 lower-case hexadecimal digits, of every file's header, every
// tensor's size and the first and last 32 KiB of its data. It names what the
// ranks of a group have loaded and costs little to make; it is no proof that
// all bytes are right. Names and places of files, and the order in which they
// are listed, do not matter. Any thread.
std::string ModelDigest(const Checkpoint& checkpoint);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_DIGEST_H_
