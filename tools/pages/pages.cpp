// SPDX-License-Identifier: MIT
#include "tools/pages/pages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "qpmesh/version.h"

namespace qpmesh::pages {
namespace {

// What troff would take for its own: backslashes, hyphens that it would break at, a dot or a quote
// that begins a line.
std::string escaped(std::string_view text) {
  std::string result;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\xe2') result += "\\[u2026]";  // ours is an ellipsis, three bytes long
    else if (static_cast<unsigned char>(c) >= 0x80) continue;
    else if (c == '\\') result += "\\e";
    else if (c == '-') result += "\\-";
    else result += c;
    begins_line = c == '\n';
  }
  return result;
}

struct Description {
  std::string usage;  // its first line
  std::string text;
};
Description description_of(const CLI::App& app) {
  const std::string all = app.get_description();
  const std::size_t end = all.find('\n');
  return {all.substr(0, end), end == std::string::npos ? "" : all.substr(end + 1)};
}

// Those that --help shows.
std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  std::vector<const CLI::Option*> shown;
  for (const CLI::Option* const option : app.get_options())
    if (!option->get_group().empty()) shown.push_back(option);
  return shown;
}

std::vector<std::string> words_of(const CLI::Option& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.get_snames()) words.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
  return words;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_min() > 0; }

}  // namespace

std::string man_page(const CLI::App& app, std::string_view summary) {
  const std::string& name = app.get_name();
  const auto [usage, text] = description_of(app);
  std::string page =
      fmt::format(".TH {} 1 \"\" \"qpmesh {}\" \"qpmesh\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n",
                  escaped(name), QPMESH_VERSION, escaped(name), escaped(summary), escaped(usage));
  page += fmt::format(".SH DESCRIPTION\n{}\n.SH OPTIONS\n", escaped(text));
  for (const CLI::Option* const option : shown_options(app)) {
    page += fmt::format(
        ".TP\n\\fB{}\\fR{}\n{}", escaped(fmt::format("{}", fmt::join(words_of(*option), ", "))),
        takes_value(*option) ? " \\fIvalue\\fR" : "", escaped(option->get_description()));
    if (!option->get_default_str().empty())
      page += fmt::format(" (without it: {})", escaped(option->get_default_str()));
    if (!option->get_envname().empty())
      page += fmt::format("; also the variable {}", option->get_envname());
    page += '\n';
  }
  page +=
      ".SH ENVIRONMENT\nVariables that begin with QPMESH_ count as they do in every program that "
      "is "
      "linked with qpmesh.\n.SH SEE ALSO\n";
  constexpr std::string_view tools[]{"qpmesh-run", "qpmesh-info", "qpmesh-doctor"};
  std::string others;
  for (const std::string_view tool : tools) {
    if (tool != name)
      others += fmt::format("{}\\fB{}\\fR(1)", others.empty() ? "" : ", ", escaped(tool));
  }
  return page + others + '\n';
}

std::string completion(const CLI::App& app) {
  std::vector<std::string> words;
  std::vector<std::string> with_value;
  for (const CLI::Option* const option : shown_options(app)) {
    for (const std::string& word : words_of(*option)) {
      words.push_back(word);
      if (takes_value(*option)) with_value.push_back(word);
    }
  }
  const std::string& name = app.get_name();
  std::string function = "_" + name;
  std::ranges::replace(function, '-', '_');
  // Behind an option with a value, and where the program stands, files and commands are offered.
  const std::string values =
      with_value.empty()
          ? ""
          : fmt::format(
                "  case ${{COMP_WORDS[COMP_CWORD - 1]}} in {}) COMPREPLY=(); return ;; esac\n",
                fmt::join(with_value, "|"));
  return fmt::format(
      "# bash completion of {0}\n{1}() {{\n{2}"
      "  [[ ${{COMP_WORDS[COMP_CWORD]}} == -* ]] || {{ COMPREPLY=(); return; }}\n"
      "  mapfile -t COMPREPLY < <(compgen -W '{3}' -- \"${{COMP_WORDS[COMP_CWORD]}}\")\n}}\n"
      "complete -o default -F {1} {0}\n",
      name, function, values, fmt::join(words, " "));
}

void add_to(CLI::App& app, std::string_view summary) {
  app.set_version_flag("--version", fmt::format("{} {}", app.get_name(), QPMESH_VERSION),
                       "the version, and nothing else");
  const auto add = [&app](const std::string& name, std::function<std::string()> page) {
    app.add_flag_callback(name,
                          [page = std::move(page)] {
                            fmt::print("{}", page());
                            throw CLI::Success{};
                          })
        ->trigger_on_parse()  // before anything is found missing
        ->group("");          // not shown
  };
  add("--man", [&app, summary] { return man_page(app, summary); });
  add("--completion", [&app] { return completion(app); });
}

}  // namespace qpmesh::pages
