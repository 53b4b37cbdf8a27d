#include "worker/bench/json_channel.h"

#include <sys/socket.h>
#include <unistd.h>

namespace phalanx {
namespace {

absl::Status Gone() {
  return absl::UnavailableError("a process of the bench ended early");
}

}  // namespace

JsonChannel::~JsonChannel() { close(fd_); }

absl::Status JsonChannel::Send(const nlohmann::json& value) {
  // An error may name a path, which may be of any bytes.
  const std::string line =
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
      "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n =
        send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return Gone();
    sent += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> JsonChannel::Receive() {
  size_t end;
  while ((end = read_.find('\n')) == std::string::npos) {
    char chunk[4096];
    const ssize_t n = recv(fd_, chunk, sizeof(chunk), 0);
    if (n <= 0) return Gone();
    read_.append(chunk, n);
  }
  auto value = nlohmann::json::parse(read_.substr(0, end), nullptr,
                                     /*allow_exceptions=*/false);
  read_.erase(0, end + 1);
  if (value.is_discarded()) return Gone();
  return value;
}

}  // namespace phalanx
