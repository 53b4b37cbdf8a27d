#include "worker/checkpoint/checkpoint.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/checkpoint/json_fields.h"
#include "worker/checkpoint/name_list.h"
#include "worker/checkpoint/weight_index.h"

namespace phalanx {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSingleName[] = "model.safetensors";

using Files = std::vector<std::unique_ptr<SafetensorsFile>>;

// Opens `names` in `model_dir`; all that are missing are named at once.
absl::StatusOr<Files> OpenFiles(const std::string& model_dir,
                                const std::set<std::string>& names) {
  Files files;
  NameList missing;
  for (const std::string& name : names) {
    auto file = SafetensorsFile::Open(absl::StrCat(model_dir, "/", name));
    if (absl::IsNotFound(file.status()))
      missing.Add(name);
    else if (!file.ok())
      return file.status();
    else
      files.push_back(*std::move(file));
  }
  if (missing.count() > 0)
    return absl::NotFoundError(absl::StrCat(
        model_dir, ": ", missing.count(), " of ", names.size(), " files in ",
        kIndexName, " are missing: ", missing.text()));
  return files;
}

// The tensors that are not in the file that the index names for them.
NameList NotWhereTheIndexSays(std::map<std::string, std::string> index,
                              const Checkpoint& checkpoint) {
  for (const auto& file : checkpoint.files()) {
    const std::string& path = file->path();
    const std::string name = path.substr(path.rfind('/') + 1);
    for (const StoredTensor& tensor : file->tensors()) {
      const auto it = index.find(tensor.name);
      if (it != index.end() && it->second == name) index.erase(it);
    }
  }
  NameList left;
  for (const auto& [tensor, file] : index)
    left.Add(absl::StrCat(tensor, " (", file, ")"));
  return left;
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& model_dir) {
  const std::string index_path = absl::StrCat(model_dir, "/", kIndexName);
  std::map<std::string, std::string> index;
  Checkpoint checkpoint;
  const auto text = ReadTextFile(index_path, kMaxIndexBytes);
  if (text.ok()) {
    auto parsed = ParseWeightIndex(*text);
    if (!parsed.ok())
      return absl::Status(
          parsed.status().code(),
          absl::StrCat(index_path, ": ", parsed.status().message()));
    index = *std::move(parsed);
    std::set<std::string> names;
    for (const auto& [tensor, file] : index) names.insert(file);
    if (names.empty() || names.size() > kMaxCheckpointFiles)
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": weight_map names ", names.size(),
                       " files; must be 1..", kMaxCheckpointFiles));
    ASSIGN_OR_RETURN(checkpoint.files_, OpenFiles(model_dir, names));
  } else if (absl::IsNotFound(text.status())) {
    auto file =
        SafetensorsFile::Open(absl::StrCat(model_dir, "/", kSingleName));
    if (absl::IsNotFound(file.status()))
      return absl::NotFoundError(absl::StrCat(
          model_dir, " has neither ", kIndexName, " nor ", kSingleName));
    if (!file.ok()) return file.status();
    checkpoint.files_.push_back(*std::move(file));
  } else {
    return text.status();
  }

  std::vector<const StoredTensor*>& tensors = checkpoint.tensors_;
  for (const auto& file : checkpoint.files_)
    for (const StoredTensor& tensor : file->tensors())
      tensors.push_back(&tensor);
  const auto by_name = [](const StoredTensor* a, const StoredTensor* b) {
    return a->name < b->name;
  };
  std::sort(tensors.begin(), tensors.end(), by_name);
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i]->name == tensors[i - 1]->name)
      return absl::DataLossError(absl::StrCat(model_dir, ": tensor ",
                                              absl::CEscape(tensors[i]->name),
                                              " is in two files"));
  const NameList absent = NotWhereTheIndexSays(std::move(index), checkpoint);
  if (absent.count() > 0)
    return absl::DataLossError(absl::StrCat(
        index_path, ": ", absent.count(),
        " tensors are not in the files it names: ", absent.text()));
  return checkpoint;
}

const StoredTensor* Checkpoint::Find(absl::string_view name) const {
  const auto it = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const StoredTensor* tensor, absl::string_view wanted) {
        return absl::string_view(tensor->name) < wanted;
      });
  return it == tensors_.end() || (*it)->name != name ? nullptr : *it;
}

}  // namespace phalanx
