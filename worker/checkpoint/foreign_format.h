#ifndef PHALANX_WORKER_CHECKPOINT_FOREIGN_FORMAT_H_
#define PHALANX_WORKER_CHECKPOINT_FOREIGN_FORMAT_H_

// Known ways to store this family's weights that are not served (model_spec.md
// 3.4): each is refused by its name, and with what to use instead.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// UNIMPLEMENTED "<what>, which is not served; <rule>: use ...".
absl::Status NotServed(absl::string_view what, absl::string_view rule = "");

// NotServed where a file of `model_dir` says so: a GGUF, a list of weights that
// GPTQ, AWQ or modelopt quantised, pickled weights where there are no others.
// `model_dir` may be a single file as well. OK for what cannot be read: others
// say why.
absl::Status RefuseForeignFiles(const std::string& model_dir);

// The format whose tensors alone are named so ("GPTQ or AWQ"); empty if none.
absl::string_view ForeignFormatOfTensor(absl::string_view name);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_FOREIGN_FORMAT_H_
