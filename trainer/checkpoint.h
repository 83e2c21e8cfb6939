// Checkpoints, from which a run resumes bit for bit. Each rank writes a file of its own, and rank 0
// one more with the model, so that no shared file system is needed. docs/wire-format.md has the
// format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/transport.h"

namespace thinwire::trainer {

// The facts that must be the same in a run and in the checkpoint from which it resumes.
struct Identity {
  std::string model, data, strategy;
  std::uint32_t workers = 0;
  std::uint64_t numel = 0, seed = 0, batch = 0;
};

// A named part of a checkpoint.
struct Section {
  std::string name;
  Payload bytes;
};

class CheckpointStore {
 public:
  CheckpointStore(std::filesystem::path directory, Identity identity, int rank);

  // Writes this rank's sections and, on rank 0, the sections of the model: under a temporary name,
  // then synced and renamed. All ranks call it together. If one rank cannot write its file, all
  // ranks throw, none keeps a file of this step, and older checkpoints stay. Otherwise all but the
  // last `keep` checkpoints are removed.
  void save(Transport& wire, std::uint64_t step, const std::vector<Section>& own,
            const std::vector<Section>& model, std::uint64_t keep);

  // Moves this rank's files of an earlier run to the directory earlier-rank-R, so that they are
  // neither resumed by mistake nor lost. Called by a run that starts from step 0. Returns whether
  // there were any.
  bool set_aside_earlier() const;

  // Checks what one rank can check before the group exists. Throws ConfigError if this rank has no
  // intact checkpoint, or if the newest intact one belongs to another run.
  void check_resumable() const;

  struct Loaded {
    std::uint64_t step = 0;
    std::vector<Section> own;
    std::vector<Section> model;      // on rank 0
    std::vector<std::string> notes;  // which newer checkpoints this rank skipped, and why
  };
  // Reads the newest checkpoint that is intact on every rank. All ranks call it together. Throws
  // ConfigError if there is none, or if the newest belongs to another run. Files of newer steps,
  // which at least one rank does not have, are moved to earlier-rank-R, because the run will write
  // these steps again.
  Loaded load(Transport& wire) const;

 private:
  std::filesystem::path own_file(std::uint64_t step) const;
  std::filesystem::path model_file(std::uint64_t step) const;
  std::filesystem::path aside() const;
  std::vector<std::filesystem::path> files_here() const;
  std::vector<std::uint64_t> steps_here() const;  // newest first
  std::pair<std::vector<Section>, std::vector<Section>> read(std::uint64_t step) const;
  void set_aside(const std::vector<std::filesystem::path>& files) const;
  void set_aside_newer(std::uint64_t step) const;
  void refuse_other_size() const;
  void remove(std::uint64_t step) const;
  void remove_unfinished() const;
  void prune(std::uint64_t keep) const;

  std::filesystem::path directory_;
  Identity identity_;
  int rank_;
};

// The suffix of the name of a file that is being written.
inline constexpr std::string_view kUnfinished = ".tmp";

// Write and read one file: identity, step and sections with a checksum. Reading throws WireError if
// the file is damaged, and ConfigError if it belongs to another run.
void write_checkpoint(const std::filesystem::path& file, const Identity& identity,
                      std::uint64_t step, const std::vector<Section>& sections);
std::vector<Section> read_checkpoint(const std::filesystem::path& file, const Identity& identity,
                                     std::uint64_t step);

const Payload& section(const std::vector<Section>& sections, std::string_view name);
std::vector<Section> pack(std::initializer_list<std::pair<std::string, Bytes>> parts);
// Copies a section to `into`. Throws WireError if it is missing or the sizes differ.
void unpack(const std::vector<Section>& sections, std::string_view name, MutBytes into);

}  // namespace thinwire::trainer
