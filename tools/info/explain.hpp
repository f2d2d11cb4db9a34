// SPDX-License-Identifier: MIT
// Which algorithm runs a call in a job like this one, and why: for qpmesh-info --explain.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "qpmesh/qpmesh.hpp"

namespace qpmesh::info {

struct Question {
  Collective collective;
  std::size_t bytes;  // of all blocks together
};
// Throws Error{bad_argument}: no collective has this name, or this is no number of bytes.
Question question_of(std::string_view collective, std::string_view bytes);

struct Answer {
  Question asked;
  std::string forced{};  // what QPMESH_ALGORITHMS says; empty: nothing
  int ranks = 1;
  int ranks_here = 1;          // that share this rank's memory
  std::size_t call_bytes = 0;  // of the calls: whole blocks of whole elements
  int calls = 0;               // that were made
  std::vector<Candidate> rows{};
};
// Collective. Calls what is asked about for a second, for algorithms are measured while a program
// runs (docs/collectives/choosing.md). Every rank learns the same.
Answer explain(Communicator& world, const Question& question, const Options& options);

std::string to_text(const Answer& answer);
std::string to_json(const Answer& answer);

}  // namespace qpmesh::info
