#include "worker/quantise/quantise_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/mutex.h"
#include "common/status.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/digest.h"
#include "worker/checkpoint/json_fields.h"
#include "worker/checkpoint/mapped_file.h"
#include "worker/checkpoint/matrix_pieces.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_table.h"
#include "worker/quantise/disk_error.h"
#include "worker/quantise/new_folder.h"
#include "worker/quantise/output_plan.h"
#include "worker/quantise/quantised_config.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// What one job reads, about, and what of it is quantised before it is written,
// so that its codes are still in a core's own cache.
constexpr int64_t kJobBytes = 2 << 20;
constexpr int64_t kBlockBytes = 256 << 10;
// More than a config.json of this family takes.
constexpr int64_t kConfigRoom = 64 << 10;

// What belongs to a model beside config.json and weights, where it is there.
constexpr const char* kCopiedFiles[] = {"generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "LICENSE",
                                        "special_tokens_map.json",
                                        "license.txt",
                                        "LICENSE.txt"};

// int4 as it is stored: codes of even columns in the low halves of bytes.
void PairCodes(std::span<const uint8_t> codes, std::vector<uint8_t>& pairs) {
  pairs.resize(codes.size() / 2);
  for (size_t i = 0; i < pairs.size(); ++i) {
    uint16_t two;
    std::memcpy(&two, codes.data() + 2 * i, sizeof(two));
    pairs[i] = static_cast<uint8_t>(two | two >> 4);
  }
}

// The work of one call. Jobs hold `this`.
class Quantiser {
 public:
  Quantiser(const QuantiseOptions& options, const OutputPlan& plan,
            CheckpointWriter& writer)
      : options_(options), plan_(plan), writer_(writer) {}

  absl::Status Run();

 private:
  // Rows `rows` of matrix `index` of a stack.
  struct Job {
    const Conversion* conversion;
    int64_t index;
    Range rows;
  };

  void AddJobs(const Conversion& conversion);
  absl::Status ConvertRows(const Job& job, LoadJobs::Scratch* scratch);
  absl::Status QuantiseRows(const Job& job, const uint16_t* rows, int64_t cols,
                            int64_t first);
  absl::Status CopyVector(const Conversion& conversion);
  // Remembers the first error, and ends the run.
  void Note(const absl::Status& status);

  const QuantiseOptions& options_;
  const OutputPlan& plan_;
  CheckpointWriter& writer_;
  LoadJobs jobs_;
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

void Quantiser::Note(const absl::Status& status) {
  if (status.ok()) return;
  MutexLock lock(mutex_);
  status_.Update(status);
  stop_ = true;
}

absl::Status Quantiser::Run() {
  for (const Conversion& conversion : plan_.conversions) AddJobs(conversion);
  LoadJobs::RunOptions run = options_.run;
  run.on_progress = [this](const LoadProgress& now) {
    if (options_.run.stop != nullptr && options_.run.stop->load()) stop_ = true;
    if (options_.run.on_progress != nullptr) options_.run.on_progress(now);
  };
  run.stop = &stop_;
  const absl::Status ran = jobs_.Run(run);
  MutexLock lock(mutex_);
  if (!status_.ok() || ran.ok()) return status_;
  return absl::CancelledError(
      absl::StrCat("stopped; nothing is left of ", options_.out_dir));
}

void Quantiser::AddJobs(const Conversion& conversion) {
  const std::vector<int64_t>& shape = conversion.source->shape;
  const size_t rank = shape.size();
  const auto bytes = static_cast<int64_t>(conversion.source->data.size());
  // Vectors and the convolution are small and of any type.
  if (!conversion.quantised && (rank != 2 || bytes < kJobBytes) &&
      conversion.multipliers == nullptr) {
    jobs_.Add(bytes, [this, &conversion](LoadJobs::Scratch*) {
      Note(CopyVector(conversion));
    });
    return;
  }
  const int64_t rows = shape[rank - 2];
  const int64_t cols = shape[rank - 1];
  const int64_t count = rank == 3 ? shape[0] : 1;
  const int64_t step = std::max<int64_t>(1, kJobBytes / (2 * cols));
  for (int64_t index = 0; index < count; ++index) {
    for (int64_t row = 0; row < rows; row += step) {
      const Job job = {&conversion, index, {row, std::min(row + step, rows)}};
      jobs_.Add(job.rows.size() * cols * 2,
                [this, job](LoadJobs::Scratch* scratch) {
                  Note(ConvertRows(job, scratch));
                });
    }
  }
}

absl::Status Quantiser::CopyVector(const Conversion& conversion) {
  const std::span<const std::byte> data = conversion.source->data;
  return writer_.Write(conversion.output, 0, data.data(), std::ssize(data));
}

absl::Status Quantiser::ConvertRows(const Job& job,
                                    LoadJobs::Scratch* scratch) {
  const Conversion& conversion = *job.conversion;
  const StoredTensor& source = *conversion.source;
  const int rank = static_cast<int>(source.shape.size());
  const int64_t rows = source.shape[static_cast<size_t>(rank) - 2];
  const int64_t cols = source.shape[static_cast<size_t>(rank) - 1];
  const MatrixPiece piece =
      MakePiece(source, conversion.multipliers,
                {.dim = rank - 2, .ranges = {job.rows}}, job.index);
  const uint16_t* bf16 = Assemble({&piece, 1}, job.rows.size(), cols, scratch);
  const int64_t first = job.index * rows + job.rows.begin;
  if (conversion.quantised)
    RETURN_IF_ERROR(QuantiseRows(job, bf16, cols, first));
  else
    RETURN_IF_ERROR(writer_.Write(conversion.output, first * cols * 2, bf16,
                                  job.rows.size() * cols * 2));
  const int64_t row_bytes = std::ssize(piece.data) / rows;  // Fewer of FP8.
  MappedFile::DropPages(
      piece.data.subspan(static_cast<size_t>(job.rows.begin * row_bytes),
                         static_cast<size_t>(job.rows.size() * row_bytes)));
  return absl::OkStatus();
}

// The job's rows, the first of which is row `first` of the tensor.
absl::Status Quantiser::QuantiseRows(const Job& job, const uint16_t* rows,
                                     int64_t cols, int64_t first) {
  const Conversion& conversion = *job.conversion;
  const bool pairs = options_.format == WeightFormat::kInt4;
  const int64_t groups = GroupsOf(cols, conversion.slices).count;
  const int64_t code_bytes = pairs ? cols / 2 : cols;  // Of a row.
  const int64_t count = job.rows.size();
  const int64_t step = std::max<int64_t>(1, kBlockBytes / (2 * cols));
  std::vector<uint16_t> scales(static_cast<size_t>(count * groups));
  std::vector<uint8_t> codes;
  std::vector<uint8_t> paired;
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t end = std::min(begin + step, count);
    codes.resize(static_cast<size_t>((end - begin) * cols));
    for (int64_t row = begin; row < end; ++row)
      options_.quantise_row(
          rows + row * cols, cols, conversion.slices, options_.format,
          codes.data() + (row - begin) * cols, scales.data() + row * groups);
    if (pairs) PairCodes(codes, paired);
    RETURN_IF_ERROR(writer_.Write(
        conversion.output, (first + begin) * code_bytes,
        pairs ? paired.data() : codes.data(), (end - begin) * code_bytes));
  }
  return writer_.Write(conversion.scales, first * groups * 2, scales.data(),
                       count * groups * 2);
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  errno = 0;
  file << text;
  file.close();
  return file.good() ? absl::OkStatus() : DiskError("write", path, errno);
}

// The files beside config.json and weights that the model has.
std::vector<fs::path> FilesBesides(const std::string& model_dir) {
  std::vector<fs::path> files;
  for (const char* name : kCopiedFiles) {
    std::error_code error;
    fs::path file = fs::path(model_dir) / name;
    if (fs::exists(file, error)) files.push_back(std::move(file));
  }
  return files;
}

// config.json last: without it nothing loads.
absl::Status CopyBesides(const std::string& from, const std::string& to,
                         WeightFormat format, const CodesOrigin& origin) {
  for (const fs::path& file : FilesBesides(from)) {
    std::error_code error;
    fs::copy_file(file, fs::path(to) / file.filename(), error);
    if (error) return DiskError("copy", file.string(), error.value());
  }
  ASSIGN_OR_RETURN(const std::string config,
                   ReadTextFile(from + "/config.json", kMaxConfigBytes));
  ASSIGN_OR_RETURN(const std::string quantised,
                   QuantisedConfig(config, format, origin));
  return WriteText(to + "/config.json", quantised);
}

// Bytes of all that CopyBesides writes, about.
int64_t BytesBesides(const std::string& model_dir) {
  int64_t bytes = kConfigRoom;
  for (const fs::path& file : FilesBesides(model_dir)) {
    std::error_code error;
    const uintmax_t size = fs::file_size(file, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

absl::Status CheckRoom(const NewFolder& folder, int64_t needed) {
  if (folder.free_bytes() >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      folder.temporary(), " needs ", needed, " bytes (", FormatByteSize(needed),
      "); free on its disk are ", folder.free_bytes()));
}

}  // namespace

absl::StatusOr<QuantiseResult> QuantiseCheckpoint(
    const QuantiseOptions& options) {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   LoadModelConfig(options.model_dir));
  if (config.stored_weights != WeightFormat::kBf16)
    return absl::InvalidArgumentError(absl::StrCat(
        options.model_dir, " is ", WeightFormatName(config.stored_weights),
        " already; it must be bf16 or block-FP8"));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                   Checkpoint::Open(options.model_dir));
  ASSIGN_OR_RETURN(const TensorTable table,
                   TensorTable::Match(checkpoint, config));
  const OutputPlan plan = PlanOutput(table, config, options.format);
  CheckpointWriter writer(plan.tensors, options.max_file_bytes);
  QuantiseResult result = {.bytes = writer.total_bytes(),
                           .files = writer.file_count()};
  for (const auto& file : checkpoint.files())
    result.source_bytes += file->bytes();
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFolder> folder,
                   NewFolder::Create(options.out_dir));
  RETURN_IF_ERROR(
      CheckRoom(*folder, result.bytes + BytesBesides(options.model_dir)));
  RETURN_IF_ERROR(writer.Open(folder->temporary()));
  RETURN_IF_ERROR(Quantiser(options, plan, writer).Run());
  RETURN_IF_ERROR(writer.Flush());
  ASSIGN_OR_RETURN(const Checkpoint written,
                   Checkpoint::Open(folder->temporary()));
  RETURN_IF_ERROR(CopyBesides(options.model_dir, folder->temporary(),
                              options.format,
                              {.digest = ModelDigest(written),
                               .source_digest = ModelDigest(checkpoint)}));
  RETURN_IF_ERROR(folder->Commit());
  return result;
}

}  // namespace phalanx
