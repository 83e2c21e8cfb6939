// The manual page and the completion script know every command and every flag.
#include "cli/help.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "cli/list.h"
#include "cli/test_call.h"

namespace thinwire::cli {
namespace {

// The flags in a command's help text: the first words of its lines.
std::set<std::string> flags_of(std::vector<std::string> command) {
  command.push_back("--help");
  const Outcome help = call(command);
  EXPECT_EQ(help.code, launch::kOk) << help.err;
  std::set<std::string> out;
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find("--");
    if (!line.starts_with("  -") || start == std::string::npos) continue;
    out.insert(line.substr(start, line.find(' ', start) - start));
  }
  return out;
}

std::vector<std::vector<std::string>> commands() {
  std::vector<std::vector<std::string>> out = {
      {"bench", "allreduce"}, {"bench", "select"}, {"plan"}, {"list"}, {"help"}};
  if (call({"train", "--help"}).code == launch::kOk) {
    out.push_back({"train"});
    out.push_back({"compare"});
  }
  return out;
}

std::string after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  EXPECT_NE(at, std::string::npos) << mark;
  return at == std::string::npos ? "" : text.substr(at + mark.size());
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '-' ? std::string("\\-") : std::string(1, c);
  return out;
}

TEST(ManualPage, HasEveryCommandAndFlag) {
  const Outcome page = call({"help", "--man"});
  ASSERT_EQ(page.code, launch::kOk) << page.err;
  EXPECT_TRUE(page.out.starts_with(".TH THINWIRE 1 "));
  for (const char* name :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES"}) {
    EXPECT_NE(page.out.find("\n.SH " + std::string(name) + "\n"), std::string::npos) << name;
  }
  for (const auto& words : commands()) {
    std::string title = "\n.SS thinwire";
    for (const std::string& word : words) title += " " + word;
    const std::string rest = after(page.out, title + "\n");
    const std::string section = rest.substr(0, rest.find("\n.S"));
    for (const std::string& flag : flags_of(words)) {
      EXPECT_NE(section.find("\\fB" + escaped(flag) + "\\fR"), std::string::npos)
          << flag << " is not in the section" << title;
    }
  }
}

TEST(BashCompletion, HasEveryCommandFlagAndName) {
  const Outcome script = call({"help", "--completion", "bash"});
  ASSERT_EQ(script.code, launch::kOk) << script.err;
  for (const auto& words : commands()) {
    std::string name = "thinwire";
    for (const std::string& word : words) name += " " + word;
    const std::string rest = after(script.out, "\n  '" + name + "') echo '");
    const std::string offered = " " + rest.substr(0, rest.find('\'')) + " ";
    for (const std::string& flag : flags_of(words)) {
      EXPECT_NE(offered.find(" " + flag + " "), std::string::npos) << name << " " << flag;
    }
  }
  const bool trains = call({"train", "--help"}).code == launch::kOk;
  for (const std::string& list : list_names()) {
    if (list == "data" && !trains) continue;  // no command has --data
    for (const std::string& name : names_in_list(list)) {
      EXPECT_NE(script.out.find(name), std::string::npos) << list << ": " << name;
    }
  }
  const Outcome fish = call({"help", "--completion", "fish"});
  EXPECT_EQ(fish.code, launch::kBadUsage);
  EXPECT_NE(fish.err.find("only bash"), std::string::npos) << fish.err;
}

}  // namespace
}  // namespace thinwire::cli
