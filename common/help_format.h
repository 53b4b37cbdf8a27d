#ifndef PHALANX_COMMON_HELP_FORMAT_H_
#define PHALANX_COMMON_HELP_FORMAT_H_

#include <CLI/CLI.hpp>

namespace phalanx {

// How our programs show --help, for CLI::App::formatter: a line or more for
// each flag, at most 80 columns wide, with what it takes, its limits and its
// default in words. CLI11's own spells them "INT:INT in [1 - 64]=1" and breaks
// no line.
class HelpFormat : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> opts) const override;
  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override;
  std::string make_subcommand(const CLI::App* app) const override;
  std::string make_expanded(const CLI::App* app) const override;
};

}  // namespace phalanx

#endif  // PHALANX_COMMON_HELP_FORMAT_H_
