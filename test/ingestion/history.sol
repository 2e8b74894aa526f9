// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// Emits what real contracts emit, about whomever it is told. One contract stands for any of the protocols.
contract History {
    event Repay(address indexed reserve, address indexed user, address indexed repayer, uint256 amount, bool useATokens);
    event LiquidationCall(address indexed collateralAsset, address indexed debtAsset, address indexed user, uint256 debtToCover, uint256 liquidatedCollateralAmount, address liquidator, bool receiveAToken);
    event VoteCast(address indexed voter, uint256 proposalId, uint8 support, uint256 weight, string reason);
    event Attested(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID);
    event Revoked(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID);
    event ExecutionSuccess(bytes32 txHash, uint256 payment);

    function repay(address user, uint256 times) external {
        for (uint256 i = 0; i < times; i++) emit Repay(address(this), user, user, i, false);
    }

    function liquidate(address user) external {
        emit LiquidationCall(address(this), address(this), user, 1, 1, msg.sender, false);
    }

    function vote(address voter) external {
        emit VoteCast(voter, 1, 1, 1, "");
    }

    function attest(address recipient, address attester) external {
        emit Attested(recipient, attester, bytes32(0), bytes32(0));
    }

    function attestTo(address recipient, address attester, bytes32 schema) external {
        emit Attested(recipient, attester, bytes32(0), schema);
    }

    function attestAs(address recipient, address attester, bytes32 uid) external {
        emit Attested(recipient, attester, uid, bytes32(0));
    }

    function revoke(address recipient, address attester, bytes32 uid) external {
        emit Revoked(recipient, attester, uid, bytes32(0));
    }

    function execute() external {
        emit ExecutionSuccess(bytes32(0), 0);
    }
}

/// Transfers of tokens: the third argument is indexed for those of ERC-721.
contract Coins {
    event Transfer(address indexed from, address indexed to, uint256 value);

    function transfer(address from, address to) external {
        emit Transfer(from, to, 1);
    }
}

contract Positions {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event IncreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1);

    function transfer(address from, address to, uint256 token) public {
        emit Transfer(from, to, token);
    }

    function increase(uint256 token) public {
        emit IncreaseLiquidity(token, 1, 1, 1);
    }

    function mint(address to, uint256 token) external {
        transfer(address(0), to, token);
        increase(token);
    }
}
