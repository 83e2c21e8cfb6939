#include "trainer/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "base/hash.h"
#include "base/number.h"
#include "base/unique_fd.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNone = 0;  // not a step: no run has a checkpoint before its first step

constexpr std::string_view kStem = "step-";

std::string stem(std::uint64_t step) { return fmt::format("{}{:012}", kStem, step); }

// Returns the step in the name of a checkpoint, or kNone if the name is not that of a checkpoint.
std::uint64_t step_of(std::string_view name) {
  if (!name.starts_with(kStem)) return kNone;
  name.remove_prefix(kStem.size());
  const std::string_view digits = name.substr(0, name.find_first_not_of("0123456789"));
  return base::parse_number<std::uint64_t>(digits).value_or(kNone);
}

void sync_directory(const fs::path& directory) {
  const base::UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) fsync(fd.get());
}

// Returns 0, or 1 + a rank that failed. No rank leaves before all ranks know the result, because
// the others would report it as lost. A rank that knows of the failure needs no further answer.
std::uint32_t agree_on_failure(Transport& wire, bool here) {
  std::uint32_t failed = here ? static_cast<std::uint32_t>(wire.rank()) + 1 : 0;
  try {
    allreduce_max(wire, std::span(&failed, 1));
    if (failed != 0) barrier(wire);
  } catch (const TransportError&) {
    if (failed == 0) throw;
  }
  return failed;
}

// Returns the facts of the error if `culprit` cannot write its checkpoint.
ErrorFields saving(const Transport& wire, int culprit) {
  ErrorFields fields;
  fields.rank = wire.rank();
  fields.peer = culprit;
  fields.host = wire.host(culprit);
  fields.operation = "save";
  if (culprit == wire.rank()) fields.remedy = Remedy::free_disk_space;
  return fields;
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path directory, Identity identity, int rank)
    : directory_(std::move(directory)), identity_(std::move(identity)), rank_(rank) {}

fs::path CheckpointStore::own_file(std::uint64_t step) const {
  return directory_ / fmt::format("{}-rank-{}-of-{}.ck", stem(step), rank_, identity_.workers);
}
fs::path CheckpointStore::model_file(std::uint64_t step) const {
  return directory_ / (stem(step) + "-model.ck");
}
fs::path CheckpointStore::aside() const {
  return directory_ / fmt::format("earlier-rank-{}", rank_);
}

void CheckpointStore::save(Transport& wire, std::uint64_t step, const std::vector<Section>& own,
                           const std::vector<Section>& model, std::uint64_t keep) {
  std::string trouble;
  try {
    fs::create_directories(directory_);
    write_checkpoint(own_file(step), identity_, step, own);
    if (rank_ == 0) write_checkpoint(model_file(step), identity_, step, model);
    sync_directory(directory_);
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  const std::uint32_t failed = agree_on_failure(wire, !trouble.empty());
  if (failed != 0) remove(step);
  if (!trouble.empty()) {
    throw Error(fmt::format("rank {} ({}): cannot write its checkpoint of step {} ({}); earlier "
                            "checkpoints are unchanged",
                            rank_, wire.host(rank_), step, trouble),
                saving(wire, rank_));
  }
  if (failed != 0) {
    const int culprit = static_cast<int>(failed) - 1;
    throw TransportError(
        TransportError::Kind::lost,
        fmt::format("rank {} ({}): rank {} ({}) cannot write its checkpoint of step "
                    "{}; see the output of that rank",
                    rank_, wire.host(rank_), culprit, wire.host(culprit), step),
        saving(wire, culprit));
  }
  prune(keep);
}

void CheckpointStore::remove(std::uint64_t step) const {
  std::error_code ignored;  // a file that cannot be removed does no harm
  fs::remove(own_file(step), ignored);
  if (rank_ == 0) fs::remove(model_file(step), ignored);
}

// Returns this rank's files of any step and any number of workers, unfinished ones included.
std::vector<fs::path> CheckpointStore::files_here() const {
  const std::string own = fmt::format("-rank-{}-of-", rank_);
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory_, missing)) {
    const std::string name = entry.path().filename();
    const bool mine = name.find(own) != std::string::npos ||
                      (rank_ == 0 && name.find("-model.ck") != std::string::npos);
    const bool whole = name.ends_with(".ck");
    if (mine && name.starts_with(kStem) && (whole || name.ends_with(kUnfinished))) {
      files.push_back(entry.path());
    }
  }
  return files;
}

// Removes the files that a killed process was writing.
void CheckpointStore::remove_unfinished() const {
  std::error_code ignored;
  for (const fs::path& file : files_here()) {
    if (file.string().ends_with(kUnfinished)) fs::remove(file, ignored);
  }
}

std::vector<std::uint64_t> CheckpointStore::steps_here() const {
  std::vector<std::uint64_t> steps;
  std::error_code missing;
  const std::string suffix = fmt::format("-rank-{}-of-{}.ck", rank_, identity_.workers);
  for (const auto& entry : fs::directory_iterator(directory_, missing)) {
    const std::string name = entry.path().filename();
    const std::uint64_t step = name.ends_with(suffix) ? step_of(name) : kNone;
    if (step != kNone) steps.push_back(step);
  }
  std::ranges::sort(steps, std::greater<>());
  return steps;
}

void CheckpointStore::prune(std::uint64_t keep) const {
  const std::vector<std::uint64_t> steps = steps_here();
  for (std::size_t i = std::max<std::uint64_t>(keep, 1); i < steps.size(); ++i) remove(steps[i]);
}

bool CheckpointStore::set_aside_earlier() const {
  remove_unfinished();
  const std::vector<fs::path> earlier = files_here();
  if (earlier.empty()) return false;
  std::error_code ignored;
  fs::remove_all(aside(), ignored);
  set_aside(earlier);
  return true;
}

// No rank may write a newer step before all ranks have done this. Otherwise the files of a step
// could come from two runs.
void CheckpointStore::set_aside_newer(std::uint64_t step) const {
  std::vector<fs::path> newer = files_here();
  std::erase_if(newer,
                [&](const fs::path& file) { return step_of(file.filename().string()) <= step; });
  if (!newer.empty()) set_aside(newer);
}

void CheckpointStore::set_aside(const std::vector<fs::path>& files) const {
  try {
    fs::create_directories(aside());
    for (const fs::path& file : files) fs::rename(file, aside() / file.filename());
  } catch (const fs::filesystem_error& error) {
    throw Error(fmt::format("rank {}: cannot move unused checkpoints to {} ({})", rank_,
                            aside().string(), error.code().message()));
  }
}

std::pair<std::vector<Section>, std::vector<Section>> CheckpointStore::read(
    std::uint64_t step) const {
  std::vector<Section> own = read_checkpoint(own_file(step), identity_, step);
  if (rank_ != 0) return {std::move(own), {}};
  return {std::move(own), read_checkpoint(model_file(step), identity_, step)};
}

void CheckpointStore::check_resumable() const {
  const std::vector<std::uint64_t> steps = steps_here();
  if (steps.empty()) refuse_other_size();
  std::string damage;
  for (const std::uint64_t step : steps) {
    try {
      read(step);
      return;
    } catch (const WireError& error) {
      if (damage.empty()) damage = error.what();
    }
  }
  throw ConfigError(fmt::format("resume: there is no intact checkpoint of rank {} in {} ({})",
                                rank_, directory_.string(), damage));
}

void CheckpointStore::refuse_other_size() const {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory_, missing)) {
    const std::string name = entry.path().filename();
    const auto of = name.rfind("-of-");
    if (!name.ends_with(".ck") || of == std::string::npos) continue;
    const std::string workers = name.substr(of + 4, name.size() - of - 7);
    if (workers == std::to_string(identity_.workers)) continue;  // of another rank of this run
    throw ConfigError(fmt::format(
        "resume: the checkpoints in {} are of a run with another number of workers ({}; this run "
        "has {}); resume with the same number",
        directory_.string(), workers, identity_.workers));
  }
  throw ConfigError(
      fmt::format("resume: there is no checkpoint of rank {} in {}", rank_, directory_.string()));
}

CheckpointStore::Loaded CheckpointStore::load(Transport& wire) const {
  remove_unfinished();
  Loaded loaded;
  std::vector<std::uint64_t> steps = steps_here();
  for (std::uint64_t bound = UINT64_MAX;;) {
    // Finds the newest intact checkpoint of this rank. A note names each damaged one that is
    // skipped.
    std::uint64_t mine = kNone;
    for (const std::uint64_t step : steps) {
      if (step > bound) continue;
      try {
        std::tie(loaded.own, loaded.model) = read(step);
        mine = step;
        break;
      } catch (const WireError& error) {
        loaded.notes.push_back(fmt::format("step {} is skipped: {}", step, error.what()));
      }
    }
    // Ranks go back to older steps until all have the same one.
    std::uint64_t bounds[2] = {mine, ~mine};
    allreduce_max(wire, std::span(bounds));
    const std::uint64_t highest = bounds[0], lowest = ~bounds[1];
    if (lowest == kNone) {
      if (loaded.notes.empty()) refuse_other_size();
      throw ConfigError(fmt::format("resume: no checkpoint in {} is intact on every rank ({})",
                                    directory_.string(), loaded.notes.back()));
    }
    if (highest == lowest) {
      loaded.step = mine;
      set_aside_newer(mine);
      return loaded;
    }
    if (mine != lowest && rank_ == 0) {  // the rank without it has a note with the reason
      loaded.notes.push_back(fmt::format(
          "resume: step {} is skipped (another rank does not have it, or its file is damaged)",
          mine));
    }
    bound = lowest;
    std::erase_if(steps, [&](std::uint64_t step) { return step > bound; });
  }
}

const Payload& section(const std::vector<Section>& sections, std::string_view name) {
  const auto found = std::ranges::find(sections, name, &Section::name);
  if (found == sections.end()) {
    throw WireError(fmt::format("checkpoint: section '{}' is missing", name));
  }
  return found->bytes;
}

std::vector<Section> pack(std::initializer_list<std::pair<std::string, Bytes>> parts) {
  std::vector<Section> sections;
  for (const auto& [name, bytes] : parts) {
    sections.push_back({name, Payload(bytes.begin(), bytes.end())});
  }
  return sections;
}

void unpack(const std::vector<Section>& sections, std::string_view name, MutBytes into) {
  const Payload& bytes = section(sections, name);
  if (bytes.size() != into.size()) {
    throw WireError(fmt::format("checkpoint: section '{}' has the wrong size ({} bytes; {} needed)",
                                name, bytes.size(), into.size()));
  }
  std::ranges::copy(bytes, into.begin());
}

}  // namespace thinwire::trainer
