// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// A contract wallet (ERC-1271) with one owner.
contract OwnedWallet {
    address public owner;

    constructor(address first) {
        owner = first;
    }

    function hand(address next) external {
        require(msg.sender == owner, "not the owner");
        owner = next;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) public view virtual returns (bytes4) {
        if (signature.length != 65) return 0xffffffff;
        address signer = ecrecover(hash, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64]));
        return signer != address(0) && signer == owner ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}

/// As a Safe: without a signature, it asks for an approval that its owner has stored. 64 bytes are r and s with v in it (EIP-2098).
contract ApprovingWallet {
    address public owner;
    mapping(bytes32 => bool) public approved;

    constructor(address first) {
        owner = first;
    }

    function approve(bytes32 hash, bool isApproved) external {
        require(msg.sender == owner, "not the owner");
        approved[hash] = isApproved;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (signature.length == 0) return approved[hash] ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
        require(signature.length == 64, "another length");
        bytes32 vs = bytes32(signature[32:64]);
        bytes32 s = vs & bytes32(uint256(type(int256).max));
        address signer = ecrecover(hash, uint8(uint256(vs) >> 255) + 27, bytes32(signature[:32]), s);
        return signer != address(0) && signer == owner ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}

/// Verifies signatures only once anybody has called `prepare`: before, it reverts or says no.
contract PreparedWallet is OwnedWallet {
    bool public isReady;
    bool immutable reverts;

    constructor(address first, bool isReverting) OwnedWallet(first) {
        reverts = isReverting;
    }

    function prepare() external {
        isReady = true;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) public view override returns (bytes4) {
        require(isReady || !reverts, "not prepared");
        return isReady ? super.isValidSignature(hash, signature) : bytes4(0xffffffff);
    }
}

/// Deploys wallets to addresses known before, for signatures by wallets that are not deployed yet (ERC-6492).
contract WalletFactory {
    function deploy(address owner, bytes32 salt) external returns (address) {
        return address(new OwnedWallet{salt: salt}(owner));
    }

    function addressOf(address owner, bytes32 salt) external view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(type(OwnedWallet).creationCode, abi.encode(owner)));
        bytes32 place = keccak256(abi.encodePacked(bytes1(0xff), address(this), salt, code));
        return address(uint160(uint256(place)));
    }
}

/// Returns whatever it is asked.
contract Echo {
    fallback(bytes calldata question) external returns (bytes memory) {
        return question;
    }
}

/// Looks like a contract wallet, and is none: whatever it is asked, it spends all the gas there is.
contract GasBurner {
    fallback() external {
        while (true) {}
    }
}
