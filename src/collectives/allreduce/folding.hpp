// Ranks beyond a power of two, as recursive multiplying and butterfly need it: a folded rank hands
// its vector to the rank before it, which takes part for both and gives it the result. Both see the
// same bits as everybody. Source: R. Rabenseifner, "Optimization of collective reduction
// operations", 2004.
#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"
#include "collectives/patterns/recursive_multiplying.hpp"

namespace qpmesh::collectives {

// All that a folded rank does.
Task take_part_folded(Group group, const Arguments& arguments);
// Of the rank before it: out = its vector and the folded one's, combined.
Task take_folded(Group group, const Arguments& arguments);
Task return_to_folded(Group group, const Arguments& arguments);

// early_s: by how much groups that did not wait for folded ranks are ahead of the first ones that
// did.
void add_folding_cost(Cost& cost, const RecursiveMultiplying& pattern, double bytes, double early_s,
                      const CostModel& model);

}  // namespace qpmesh::collectives
