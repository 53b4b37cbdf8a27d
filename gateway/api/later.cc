#include "gateway/api/later.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <memory>
#include <utility>

namespace phalanx {

void CallLater(double seconds, std::function<void()> what) {
  const auto deadline =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::duration<double>(seconds));
  // The alarm is held by its own callback, which lets go of it at the end.
  auto alarm = std::make_shared<grpc::Alarm>();
  grpc::Alarm& set = *alarm;
  set.Set(deadline,
          [alarm = std::move(alarm), what = std::move(what)](bool) mutable {
            const std::shared_ptr<grpc::Alarm> last = std::move(alarm);
            what();
          });
}

}  // namespace phalanx
