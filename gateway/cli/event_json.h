#ifndef PHALANX_GATEWAY_CLI_EVENT_JSON_H_
#define PHALANX_GATEWAY_CLI_EVENT_JSON_H_

#include <google/protobuf/message.h>

#include <string>

#include "inference.pb.h"

namespace phalanx {

// One JSON object on one line, without its end: the protobuf JSON mapping with
// the proto's own field names. Fields that have their default are written too
// (a log-probability of 0 is one), but for those that know whether they are
// set. 64-bit numbers are strings, as the mapping says.
std::string MessageJson(const google::protobuf::Message& message);

// {"delta":{...}}: the event that is set, and nothing beside it; {} if none is.
std::string EventJson(const v1::GenerateEvent& event);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_EVENT_JSON_H_
