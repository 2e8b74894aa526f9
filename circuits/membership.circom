pragma circom 2.1.6;

include "circomlib/circuits/poseidon.circom";

// The root of a binary Merkle tree of Poseidon hashes, from a leaf and the siblings on its way up.
template MerkleRoot(depth) {
    signal input leaf;
    signal input siblings[depth];
    // 1 where the sibling is on the left. Together: the leaf's index, lowest bit first.
    signal input index[depth];
    signal output root;

    signal node[depth + 1];
    signal swap[depth];
    component hash[depth];
    node[0] <== leaf;
    for (var i = 0; i < depth; i++) {
        index[i] * (index[i] - 1) === 0;
        swap[i] <== index[i] * (siblings[i] - node[i]);
        hash[i] = Poseidon(2);
        hash[i].inputs[0] <== node[i] + swap[i];
        hash[i].inputs[1] <== siblings[i] - swap[i];
        node[i + 1] <== hash[i].out;
    }
    root <== node[depth];
}

// What the holder of a secret shows of itself: to the issuer its commitment, within a scope its nullifier. Neither
// tells the secret, and without the secret nobody can tell that two nullifiers are of one holder.
template Holder() {
    signal input secret;
    signal input scope;
    signal output commitment;
    signal output nullifier;

    component commit = Poseidon(1);
    commit.inputs[0] <== secret;
    commitment <== commit.out;

    component nullify = Poseidon(2);
    nullify.inputs[0] <== secret;
    nullify.inputs[1] <== scope;
    nullifier <== nullify.out;
}

// Makes the proof one for this subject alone: a public input must stand in a constraint to be part of what is proved.
template Bind() {
    signal input subject;
    signal square;
    square <== subject * subject;
}
