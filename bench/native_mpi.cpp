// Baseline: MPI_Allreduce with whatever algorithm the MPI library chooses.
#include <mpi.h>

#include <stdexcept>

#include "native.h"

namespace {

using thinwire::bench::NativeGroup;
using thinwire::bench::NativeOptions;

// The default error handler of MPI_COMM_WORLD ends the job, so return codes carry nothing.
class MpiGroup final : public NativeGroup {
 public:
  MpiGroup() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiGroup() override { MPI_Finalize(); }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void allreduce_sum(std::span<float> data) override {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }

  std::vector<double> allgather(double value) override {
    std::vector<double> all(static_cast<std::size_t>(size_));
    MPI_Allgather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, MPI_COMM_WORLD);
    return all;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

std::unique_ptr<NativeGroup> join(const NativeOptions&) { return std::make_unique<MpiGroup>(); }

}  // namespace

int main(int argc, char** argv) {
  return thinwire::bench::run_native(argc, argv, {"openmpi-native", "mpi", false, join});
}
