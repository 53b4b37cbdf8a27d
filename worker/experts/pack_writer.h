#ifndef PHALANX_WORKER_EXPERTS_PACK_WRITER_H_
#define PHALANX_WORKER_EXPERTS_PACK_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "worker/experts/pack_file.h"

namespace phalanx {

// Makes the file of `key` at `path`, in place of what is there, all or nothing:
// a temporary beside it (path.tmp, overwritten if one is left over) gets the
// name when its bytes are on the disk. One maker at a time; errors as
// PackFile::OpenOrMake's.
absl::Status WritePack(const std::string& path, const PackKey& key, int threads,
                       const PackExpert& pack);

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_PACK_WRITER_H_
