#include "gateway/cli/event_json.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace phalanx {

std::string MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  CHECK(google::protobuf::util::MessageToJsonString(message, &json, options)
            .ok());
  return json;
}

std::string EventJson(const v1::GenerateEvent& event) {
  const auto* oneof = event.GetDescriptor()->FindOneofByName("event");
  const auto* field =
      event.GetReflection()->GetOneofFieldDescriptor(event, oneof);
  if (field == nullptr) return "{}";
  return absl::StrCat(
      "{\"", field->name(),
      "\":", MessageJson(event.GetReflection()->GetMessage(event, field)), "}");
}

}  // namespace phalanx
