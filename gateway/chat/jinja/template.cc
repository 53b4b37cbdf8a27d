#include "gateway/chat/jinja/template.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/lexer.h"
#include "gateway/chat/jinja/parser.h"

namespace phalanx::jinja {

absl::StatusOr<std::unique_ptr<Template>> Template::Parse(
    absl::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the template has ", source.size(),
                     " bytes; must be at most ", kMaxTemplateBytes));
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  ASSIGN_OR_RETURN(Block body, Parser(std::move(tokens)).Parse());
  return std::unique_ptr<Template>(new Template(std::move(body)));
}

absl::StatusOr<std::string> Template::Render(
    const Mapping& context, const RenderOptions& options) const {
  return Interpreter(context, options).Run(body_);
}

}  // namespace phalanx::jinja
