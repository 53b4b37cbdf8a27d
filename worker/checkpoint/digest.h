#ifndef PHALANX_WORKER_CHECKPOINT_DIGEST_H_
#define PHALANX_WORKER_CHECKPOINT_DIGEST_H_

#include <string>

#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// A SHA-256, in 64 lower-case hexadecimal digits, of every file's header, every
// tensor's size and the first and last 32 KiB of its data. It names what the
// ranks of a group have loaded and costs little to make; it is no proof that
// all bytes are right. Names and places of files, and the order in which they
// are listed, do not matter. Any thread.
std::string ModelDigest(const Checkpoint& checkpoint);

// The digest of the model that a checkpoint holds: of `phalanx quantize`'s
// codes, that of the checkpoint they were made from, which quantised at load
// gives the same bits; else `digest`, its own. `digest` is ModelDigest of the
// checkpoint that `config` is of. Codes are taken for what config.json says
// only while `digest` is what it says too, so one of which another tool has
// changed anything that a digest covers is a model of its own. Trusted are
// config.json, as everywhere, and bytes that a digest does not cover.
std::string SourceDigest(const std::string& digest, const ModelConfig& config);

// A SHA-256, as above, of what config.json says of how the model computes,
// which no tensor shows: two models of equal weights that would give other
// bytes have other ones. Not of what they are called or stored in, so that
// codes and what they were made from have one; nor of the longest context,
// which refuses requests and changes no byte of those that it admits. Any
// thread.
std::string ConfigDigest(const ModelConfig& config);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_DIGEST_H_
